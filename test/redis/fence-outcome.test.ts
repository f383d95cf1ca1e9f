import { FenceUnavailableError, LeaseholdError, type Grant, type Holding } from '@leasehold/core';
import { redisFence, type RedisTx } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

// Not public: how to know the question.
import { settleScript } from '../../packages/core/src/redis/scripts/fence-settle.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { until } from '../support/redis-cluster.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { failing } from './clients.ts';
import { leaseId } from './requests.ts';

let server: RedisServer;
let proxy: TcpProxy;
/** Straight to the server, for questions. */
let direct: Redis;
let resource: string;
let log: string;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  proxy = await TcpProxy.start(server, 'file');
  direct = await connectRedis(server.url);
});

afterAll(async () => {
  direct.disconnect();
  await proxy.close();
  await server.stop();
});

beforeEach(() => {
  resource = `shop/${uniqueName('outcome')}`;
  log = `${resource}:log`;
});

const open: { close(): void; isClosed?(): boolean }[] = [];

afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

type Fenceable = Parameters<typeof redisFence>[0];

const libraries: Readonly<Record<string, (url: string) => Promise<Fenceable>>> = {
  async ioredis(url) {
    const client = await connectRedis(url, { maxRetriesPerRequest: 20, retryStrategy: () => 20 });
    open.push({ close: () => client.disconnect(), isClosed: () => client.status === 'end' });
    return client;
  },
  async 'node-redis'(url) {
    const client = createClient({ url, socket: { reconnectStrategy: 20 } });
    client.on('error', () => {});
    await client.connect();
    open.push({ close: () => client.destroy() });
    return client;
  },
};

let last = 1_700_000_000_000_000;
const nextGrant = (): Grant => ({ resource, fencingToken: ++last, leaseId: leaseId() });
const push = (entry: string) => (tx: RedisTx) => tx.call<number>('RPUSH', log, entry);
const entries = () => direct.lrange(log, 0, -1);
const fields = () => direct.hgetall(`leasehold-fence:{${resource}}`);

describe.each(Object.entries(libraries))('over %s', (library, connect) => {
  test('a write whose answer was lost is carried out once, and says that only its replies are lost', async () => {
    const fence = redisFence(await connect(proxy.redisUrl));
    const grant = nextGrant();
    await fence.write(grant, push('before'));
    const lost = proxy.loseNextReply('evalsha');
    const reply = await fence.write(grant, push('in doubt'));
    await lost;
    expect(await entries()).toEqual(['before', 'in doubt']);
    expect(() => reply.value).toThrow(FenceUnavailableError);
    expect(() => reply.value).toThrow(/it was written, but its reply is lost/);
    const next = await fence.write(grant, push('after'));
    expect(next.value).toBe(3);
  });

  test('a body whose answer was lost is carried out once, and says that it was', async () => {
    const fence = redisFence(await connect(proxy.redisUrl));
    const grant = nextGrant();
    const body = `return redis.call('RPUSH', KEYS[1], ARGV[1])`;
    await fence.eval(grant, body, { keys: [log], args: ['before'] });
    const lost = proxy.loseNextReply('evalsha');
    const { error } = await failing(fence.eval(grant, body, { keys: [log], args: ['in doubt'] }));
    await lost;
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'written' });
    expect(await entries()).toEqual(['before', 'in doubt']);
  });

  test('a write that failed and whose answer was lost is not repeated, and says which command it was', async () => {
    const fence = redisFence(await connect(proxy.redisUrl));
    const grant = nextGrant();
    await fence.write(grant, push('before'));
    const lost = proxy.loseNextReply('evalsha');
    const write = fence.write(grant, (tx) => {
      push('first')(tx);
      tx.call('INCR', log);
      push('third')(tx);
    });
    const { error } = await failing(write);
    await lost;
    expect(error).toMatchObject({ code: 'FENCED_COMMAND', index: 1 });
    expect(error.message).toContain('command 2 of 3 (INCR');
    expect(await entries()).toEqual(['before', 'first']);
  });

  test('a write whose answer was lost, before another grant was admitted, does not know: its lease hears the refusal', async () => {
    const client = await connect(proxy.redisUrl);
    const [fence, other] = [redisFence(client), redisFence(direct)];
    const refusals: unknown[] = [];
    const lease: Holding = {
      grant: nextGrant(),
      assertHeld: () => {},
      holding: { mayWrite: () => true, refused: (error) => void refusals.push(error) },
    };
    await fence.write(lease, push('before'));
    const later = nextGrant();
    const lost = proxy.loseNextReply('evalsha');
    const write = failing(fence.write(lease, push('in doubt')));
    await lost;
    await other.activate(later);
    const { error } = await write;
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(LeaseholdError.is(error, 'STALE_TOKEN')).toBe(true);
    expect(refusals).toMatchObject([{ code: 'STALE_TOKEN', highest: { leaseId: later.leaseId } }]);
    expect(await entries()).toEqual(['before', 'in doubt']);
  });

  test('what arrives late, when its write has had its answer, does nothing', async () => {
    const fence = redisFence(await connect(proxy.redisUrl));
    const grant = nextGrant();
    await fence.write(grant, push('before'));
    // At once, and when another write has been answered in the meantime.
    for (const others of [0, 1]) {
      let release = (): void => {};
      const held = new Promise<void>((resolve) => (release = resolve));
      const copied = proxy.duplicateNextRequest('evalsha', held);
      await fence.write(grant, push(`copied ${others}`));
      for (let each = 0; each < others; each++) await fence.write(grant, push('other'));
      release();
      expect(String(await copied)).toContain(others === 0 ? 'again' : 'over');
    }
    expect(await entries()).toEqual(['before', 'copied 0', 'copied 1', 'other']);
  });

  test('what was given up as not written stays so, though its request arrives after all', async () => {
    const client = await connect(proxy.redisUrl);
    const fence = redisFence(client);
    const grant = nextGrant();
    await fence.write(grant, push('before'));
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const copied = proxy.duplicateNextRequest('evalsha', held);
    const lost = proxy.loseNextRequest('evalsha');
    const told = await fence.write(grant, push('in doubt')).then(
      () => 'written',
      (error: unknown) => (error as FenceUnavailableError).outcome,
    );
    await lost;
    // ioredis sent it again; node-redis did not.
    expect(told).toBe(library === 'ioredis' ? 'written' : 'not-written');
    release();
    expect(String(await copied)).toContain('again');
    expect(await entries()).toEqual(told === 'written' ? ['before', 'in doubt'] : ['before']);
  });

  test('whatever becomes of the connections, every write tells the truth', { timeout: 60_000 }, async () => {
    const fence = redisFence(await connect(proxy.redisUrl));
    const grant = nextGrant();
    await fence.activate(grant);
    const told = new Map<string, string>();
    let number = 0;
    const writer = async (): Promise<void> => {
      while (number < 200) {
        const entry = `entry ${++number}`;
        // Now and then in the middle of what is under way.
        if (number % 15 === 0) proxy.cut(number % 30 === 0 ? 'reset' : 'end');
        if (number % 37 === 0) void proxy.loseNextReply('evalsha');
        if (number % 41 === 0) void proxy.loseNextRequest('evalsha');
        await fence.write(grant, push(entry)).then(
          () => told.set(entry, 'written'),
          (error: unknown) => {
            if (!LeaseholdError.is(error, 'FENCE_UNAVAILABLE')) throw error;
            told.set(entry, (error as FenceUnavailableError).outcome);
          },
        );
      }
    };
    await Promise.all(Array.from({ length: 8 }, writer));
    // Sets aside whatever might still be on its way.
    await redisFence(direct).activate(nextGrant());
    const found = await entries();
    expect(new Set(found).size).toBe(found.length);
    const claimed = (outcome: string) => [...told].flatMap(([entry, said]) => (said === outcome ? [entry] : []));
    expect(claimed('unknown')).toEqual([]);
    expect(found.toSorted()).toEqual(claimed('written').toSorted());
    expect(claimed('written').length).toBeGreaterThan(50);
  });

  test('what is known of writes does not grow, and goes with their grant', async () => {
    const fence = redisFence(await connect(server.url));
    const grant = nextGrant();
    await Promise.all(Array.from({ length: 100 }, (_, index) => fence.write(grant, push(`${index}`))));
    await fence.write(grant, push('last'));
    const { token, lease_id: ofLease, ...writes } = await fields();
    expect([token, ofLease]).toEqual([String(grant.fencingToken), grant.leaseId]);
    expect(Object.values(writes)).toEqual(['101|101;']);
    const next = nextGrant();
    await fence.activate(next);
    expect(await fields()).toEqual({ token: String(next.fencingToken), lease_id: next.leaseId });
  });

  test('a client that is closed has written nothing', async () => {
    const fence = redisFence(await connect(server.url));
    for (const each of open) each.close();
    await until(async () => open.every((each) => each.isClosed?.() !== false));
    open.length = 0;
    const { error } = await failing(fence.write(nextGrant(), push('never')));
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
  });

  test('a server that refuses has written nothing', async () => {
    await using refusing = await startRedis();
    await using raw = await connectRedis(refusing.url);
    const fence = redisFence(await connect(refusing.url));
    const refused = async (says: RegExp): Promise<void> => {
      for (const work of [() => fence.write(nextGrant(), push('never')), () => fence.eval(nextGrant(), 'return 1')]) {
        const { error } = await failing(work());
        expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
        expect(error.message).toMatch(says);
        expect(error.message).toContain('; nothing was written');
      }
    };
    await raw.config('SET', 'maxmemory', '1');
    await refused(/was refused: OOM/);
    await raw.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '1');
    await refused(/was refused: NOREPLICAS/);
    await raw.config('SET', 'min-replicas-to-write', '0');
    await raw.replicaof('127.0.0.1', '1');
    await refused(/was refused: READONLY/);
    await raw.replicaof('NO', 'ONE');
    await raw.call('ACL', 'SETUSER', 'default', '-evalsha');
    await refused(/was refused: NOPERM/);
    await raw.call('ACL', 'SETUSER', 'default', '+evalsha');
    // A script of somebody else that does not end.
    await raw.config('SET', 'busy-reply-threshold', '1');
    await using stuck = await connectRedis(refusing.url);
    const looping = failing(stuck.eval('while true do end', 0));
    for (let said = ''; !said.startsWith('BUSY');) {
      said = await raw.ping().catch((error: unknown) => String((error as Error).message));
    }
    await refused(/was refused: BUSY/);
    await raw.script('KILL');
    await looping;
    expect(await raw.exists(log)).toBe(0);
    await fence.write(nextGrant(), push('now'));
  });
});

test('a client that neither answers nor sends again is not waited for until it is too late', async () => {
  const client = await connectRedis(proxy.redisUrl, { autoResendUnfulfilledCommands: false });
  open.push({ close: () => client.disconnect() });
  const fence = redisFence(client, { timeout: '60s' });
  const grant = nextGrant();
  await fence.write(grant, push('before'));
  const lost = proxy.loseNextReply('evalsha');
  const reply = await fence.write(grant, push('in doubt'));
  await lost;
  expect(() => reply.value).toThrow(/it was written, but its reply is lost/);
  expect(await entries()).toEqual(['before', 'in doubt']);
});

test('what was carried out, and is refused when it is sent again, is not said to be not written', async () => {
  await using promoted = await startRedis();
  await using between = await TcpProxy.start(promoted);
  await using raw = await connectRedis(promoted.url);
  const client = (await libraries['ioredis']?.(between.redisUrl)) as Redis;
  const fence = redisFence(client, { timeout: '1s' });
  const grant = nextGrant();
  await fence.write(grant, push('before'));
  const lost = between.loseNextReply('evalsha');
  const write = failing(fence.write(grant, push('in doubt')));
  await lost;
  between.refuse();
  // The client comes back to a server that is no primary any more.
  await raw.replicaof('127.0.0.1', '1');
  between.pass();
  const { error } = await write;
  expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
  expect(error.message).toContain('READONLY');
  expect(await raw.lrange(log, 0, -1)).toEqual(['before', 'in doubt']);
});

test('a client that sends again writes twice; without the fence, that is', async () => {
  const client = (await libraries['ioredis']?.(proxy.redisUrl)) as Redis;
  const lost = proxy.loseNextReply('rpush');
  await client.rpush(log, 'twice');
  await lost;
  expect(await entries()).toEqual(['twice', 'twice']);
});

describe('a server that is silent', () => {
  test('until it is almost too late: the write is answered', async () => {
    await using silent = await startRedis();
    await using between = await TcpProxy.start(silent);
    const client = await connectRedis(between.redisUrl);
    open.push({ close: () => client.disconnect() });
    const fence = redisFence(client, { timeout: '3s' });
    const grant = nextGrant();
    await fence.write(grant, push('before'));
    await silent.pause();
    const asked = between.nextRequest(settleScript.sha);
    const write = fence.write(grant, push('late'));
    // It has been asked what became of the write, after three quarters of the time.
    await asked;
    silent.resume();
    expect((await write).value).toBe(2);
    expect(await client.lrange(log, 0, -1)).toEqual(['before', 'late']);
  });

  test('for too long: the outcome is unknown, and a later grant still decides', async () => {
    await using silent = await startRedis();
    const client = await connectRedis(silent.url);
    open.push({ close: () => client.disconnect() });
    const fence = redisFence(client, { timeout: 200 });
    const [grant, later] = [nextGrant(), nextGrant()];
    await fence.write(grant, push('before'));
    await silent.pause();
    const { error, ms } = await failing(fence.write(grant, push('unknown')));
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(ms).toBeLessThan(2000);
    silent.resume();
    const patient = redisFence(client);
    await patient.activate(later);
    const found = await client.lrange(log, 0, -1);
    await patient.write(later, push('later'));
    expect(await client.lrange(log, 0, -1)).toEqual([...found, 'later']);
  });
});
