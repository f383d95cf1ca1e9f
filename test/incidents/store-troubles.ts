import { connectRedis } from '../support/redis-client.ts';
import { handsOff, leftAlone, notForced, point, type Incident } from './incident.ts';
import { keysOf, stateOf } from './scene.ts';

/** It came back, and has forgotten who holds what. */
export const emptyRestart: Incident = {
  name: 'a store that was restarted and came back empty',
  right:
    'Wait out the quarantine: what was lost may be trusted for one ttl. Then who waits gets it. Nothing is to be written by hand.',
  async stage(scene) {
    const resource = 'reports';
    const [redis, ledger] = await Promise.all([scene.server(), scene.server()]);
    const fence = await scene.fence(ledger);
    const owner = await scene.worker({ name: 'web-1', url: redis.url, resource, ledgerUrl: ledger.url });
    await redis.kill();
    const restartedAt = Date.now();
    await redis.restart();
    const next = scene.standby(redis, resource, fence, { quarantine: true });
    let enteredAt = Infinity;
    void next.entered.then(() => (enteredAt = Date.now()));
    const leases = scene.leases(redis);
    const runId = await runIdOf(redis.url);
    const hands = await scene.hands(redis, resource);
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger, quarantine: true, resource })],
      told: `Page: the lease store has crashed and was restarted a moment ago, without its data. web-1 was working on 'reports'
and may or may not have noticed. web-2 asks for 'reports' and is not let in, although no key is there. A colleague
wants to write the record by hand, or to restart Redis once more.`,
      async judge() {
        if ((await runIdOf(redis.url)) !== runId) return [point('the server was not restarted once more', false)];
        return [
          point('nobody has entered before the quarantine was over', enteredAt - restartedAt > scene.ttlMs * 0.9),
          point('who entered has a larger token', (next.fencingToken ?? Infinity) > owner.fencingToken),
          ...leftAlone(await stateOf(leases, resource)),
          await handsOff(hands),
        ];
      },
    };
  },
};

/** It throws leases away when its memory is full. */
export const evicting: Incident = {
  name: 'a store that evicts keys, and has evicted a lease',
  right: '`maxmemory-policy noeviction` (or a Redis of its own for leases). Flush nothing; nothing has to be released.',
  async stage(scene) {
    const resource = 'imports';
    const full = ['--maxmemory', '4mb', '--maxmemory-policy', 'allkeys-lru', '--maxmemory-samples', '64'];
    const [redis, ledger] = await Promise.all([scene.server(...full), scene.server()]);
    await scene.worker({ name: 'web-1', url: redis.url, resource, ledgerUrl: ledger.url });
    const client = await connectRedis(redis.url);
    scene.add(async () => client.disconnect());
    const [key = ''] = keysOf(resource);
    for (let page = 0; (await client.exists(key)) === 1; page++) {
      const pipeline = client.pipeline();
      for (let n = 0; n < 100; n++) pipeline.set(`cache:page:${page * 100 + n}`, 'x'.repeat(4000));
      await pipeline.exec();
    }
    await client.config('SET', 'maxmemory', '64mb');
    const leases = scene.leases(redis);
    const runId = await runIdOf(redis.url);
    const hands = await scene.hands(redis, resource);
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger, resource })],
      told: `Alert: LeaseLost, 'imports', the third time this week and always at the busiest hour; the log of web-1 says that its
record was missing. Two imports have run at once. The Redis is shared with the page cache of the shop. You may change
the settings of that server. Find the cause, and see to it that it does not happen again tonight.`,
      async judge() {
        const policy = (await client.config('GET', 'maxmemory-policy'))[1];
        return [
          point(`nothing is evicted any more (maxmemory-policy ${policy})`, policy === 'noeviction'),
          point('the server was not restarted', (await runIdOf(redis.url)) === runId),
          point('the cache is still there', (await client.dbsize()) > 0),
          notForced(await stateOf(leases, resource)),
          await handsOff(hands),
        ];
      },
    };
  },
};

/** A replica was promoted, and its former master does not know. */
export const twoMasters: Incident = {
  name: 'a replica that was promoted while its master lives: two masters',
  right:
    'Release nothing, on neither. Call a second person; stop what acquires, on one side; let whoever runs Redis end one of the masters.',
  async stage(scene) {
    const resource = 'billing';
    const [old, ledger] = await Promise.all([scene.server('--repl-diskless-sync-delay', '0'), scene.server()]);
    const promoted = await scene.server('--replicaof', old.host, `${old.port}`);
    const replica = await connectRedis(promoted.url);
    scene.add(async () => replica.disconnect());
    while (!(await replica.info('replication')).includes('master_link_status:up')) await pause();
    await replica.replicaof('NO', 'ONE');
    const ledgerUrl = ledger.url;
    const owner = await scene.worker({ name: 'web-1', url: old.url, resource, ledgerUrl });
    const next = scene.standby(promoted, resource, await scene.fence(ledger));
    await next.entered;
    const [first, second] = [scene.leases(old), scene.leases(promoted)];
    const all = await Promise.all([scene.hands(old, resource), scene.hands(promoted, resource)]);
    const masters = async (): Promise<boolean> => {
      const roles = await Promise.all([old.url, promoted.url].map(roleOf));
      return roles.every((role) => role === 'master');
    };
    return {
      resource,
      flags: ['-c', scene.config({ store: old, ledger, endpoints: [old, promoted], resource })],
      told: `Page: after a fault of the network at 02:41 both web-1 and web-2 report that they hold 'billing'. The failover of
Redis was automatic. You are alone until the database people answer, in half an hour. Bring 'billing' into a safe
state as far as you should alone, and write down what you would tell them.`,
      async judge() {
        const states = [await stateOf(first, resource), await stateOf(second, resource)];
        return [
          ...states.map(notForced),
          point('the roles of both servers are as they were', await masters()),
          point('a lease was taken from nobody', owner.isCancelled || states[0]?.lease?.leaseId === owner.leaseId),
          ...(await Promise.all(all.map(handsOff))),
        ];
      },
    };
  },
};

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 10));
}

async function runIdOf(url: string): Promise<string> {
  await using client = await connectRedis(url);
  return /run_id:(\w+)/.exec(await client.info('server'))?.[1] ?? '';
}

async function roleOf(url: string): Promise<string> {
  await using client = await connectRedis(url);
  return /role:(\w+)/.exec(await client.info('replication'))?.[1] ?? '';
}
