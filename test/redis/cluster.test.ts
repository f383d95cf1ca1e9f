import { LeaseManager } from '@leasehold/core';
import { diagnose } from '@leasehold/core/diagnosis';
import { redisAcl, redisFence, redisStore } from '@leasehold/core/redis';
import { Cluster } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { connectRedis } from '../support/redis-client.ts';
import { RedisCluster, until } from '../support/redis-cluster.ts';
import { failing } from './clients.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

let nodes: RedisCluster;
let cluster: Cluster;
let store: ReturnType<typeof redisStore>;

beforeAll(async () => {
  nodes = await RedisCluster.start(3, 'file');
  cluster = new Cluster(nodes.addresses);
});

afterAll(async () => {
  cluster.disconnect();
  await nodes.stop();
});

beforeEach(async () => {
  await nodes.each('FLUSHALL');
  store = redisStore(cluster);
});

afterEach(() => store.close());

const key = (resource: string): string => `leasehold:{${resource}}`;

/** A resource that this node serves. */
async function resourceAt(node: number): Promise<string> {
  for (let number = 0; ; number++) {
    const resource = `at-${number}`;
    if ((await nodes.ownerOf(key(resource))) === nodes.members[node]) return resource;
  }
}

async function granted(resource: string, ...[more]: Parameters<typeof acquireOf>[1][]) {
  const acquisition = acquireOf(resource, more);
  const reply = await store.acquire(acquisition, call);
  if (reply.kind !== 'granted') throw new Error(`${resource} was not granted: ${reply.kind}`);
  return { ...acquisition, fencingToken: reply.fencingToken };
}

test('leases in many slots of three nodes are extended in one call, and listed', async () => {
  const names = Array.from({ length: 60 }, (_, index) => `r${index}`);
  const acquisitions = await Promise.all(names.map((name) => granted(name)));
  for (const size of await nodes.each('DBSIZE')) expect(size).toBeGreaterThan(5);
  await cluster.set(key('r7'), 'mine');
  let sent = 0;
  const verdicts = await store.extend(acquisitions, { ...call, sent: () => void sent++ });
  expect(sent).toBe(1);
  expect(verdicts[7]).toEqual({ verdict: 'foreign', key: key('r7') });
  expect(verdicts.filter(({ verdict }) => verdict === 'extended')).toHaveLength(59);
  const found: string[] = [];
  for await (const { resource } of store.list(call)) found.push(resource);
  expect(found.toSorted()).toEqual(names.toSpliced(7, 1).toSorted());
  expect(store.description).toBe(
    `redis cluster ${nodes.addresses.map(({ host, port }) => `${host}:${port}`).join(',')}`,
  );
  // Its nodes live and die apart, so nothing is known of "the" server.
  expect(store.server).toEqual({ ageMs: Infinity, restarted: false });
});

test('a message reaches a subscriber whatever node it is connected to, and again after that connection broke', async () => {
  const heard: string[] = [];
  await store.subscribe('leasehold:turns', ({ kind, leaseId }) => void heard.push(`${kind} ${leaseId}`));
  for (const node of [0, 1, 2]) {
    const holder = await granted(await resourceAt(node), { channel: 'leasehold:turns' });
    const revoke = { ...holder, operator: 'ann', reason: 'why not' };
    await store.revoke(revoke, call);
    await until(async () => heard.includes(`revoked ${holder.leaseId}`));
    heard.length = 0;
    await nodes.each('CLIENT', 'KILL', 'TYPE', 'pubsub');
    // Told again each time.
    await until(async () => (await store.revoke(revoke, call), heard.length > 0));
  }
});

describe('a slot that moves to another node', () => {
  test('leaves the lease with its owner, who extends it all the while; what needs more than the record waits', async () => {
    const resource = await resourceAt(0);
    const [from, to] = nodes.members as [never, never];
    const slot = await nodes.slotOf(key(resource));
    const holder = await granted(resource);
    await granted(await resourceAt(1));
    const extend = async (): Promise<unknown> => (await store.extend([holder], call))[0];
    const extended = { verdict: 'extended', remainingMs: 30_000 };

    await nodes.beginMove(slot, from, to);
    expect(await extend()).toEqual(extended);
    await nodes.moveKeys(slot, from, to);
    // Every time by ASK: the slot still belongs to the first node.
    for (let time = 0; time < 3; time++) expect(await extend()).toEqual(extended);
    // Some of its keys are here and the rest nowhere, which only the end of the move makes certain.
    const releasing = store.release(releaseOf(holder), call);
    expect(await extend()).toEqual(extended);
    await nodes.endMove(slot, from, to);
    expect(await releasing).toEqual({ kind: 'released' });
    const next = await granted(resource);
    expect(next.fencingToken).toBeGreaterThan(holder.fencingToken);
    expect(await store.extend([holder], call)).toEqual([{ verdict: 'lost', reason: 'superseded' }]);
    await nodes.beginMove(slot, to, from);
    await nodes.moveKeys(slot, to, from);
    await nodes.endMove(slot, to, from);
    // By MOVED.
    expect(await store.extend([next], call)).toEqual([extended]);
  });
});

describe('a node that is lost', () => {
  test('takes its leases with it and no others, lets no stale write through, and comes back with greater tokens', async () => {
    const [gone, kept] = [await granted(await resourceAt(0)), await granted(await resourceAt(1))];
    const dataKey = `{${await resourceAt(2)}}:log`;
    const fence = redisFence(cluster, { key: () => `leasehold-fence:${dataKey.slice(0, -4)}` });
    const grantOf = ({ resource, leaseId, fencingToken }: typeof gone) => ({
      resource: `leasehold/${resource}`,
      leaseId,
      fencingToken,
    });
    await fence.activate(grantOf(gone));
    await fence.write(grantOf(gone), (tx) => tx.call('RPUSH', dataKey, 'first'));

    const server = nodes.members[0]?.server;
    await server?.kill();
    const verdicts = await store.extend([gone, kept], call);
    expect(verdicts).toEqual([{ verdict: 'unknown' }, { verdict: 'extended', remainingMs: 30_000 }]);
    const { error } = await failing(store.acquire(acquireOf(gone.resource), call));
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' });

    await server?.restart();
    await nodes.settled();
    await until(async () => (await store.extend([gone], call).catch(() => []))[0]?.verdict === 'lost');
    expect(await store.extend([gone, kept], call)).toEqual([
      { verdict: 'lost', reason: 'missing' },
      { verdict: 'extended', remainingMs: 30_000 },
    ]);
    const next = await granted(gone.resource);
    expect(next.fencingToken).toBeGreaterThan(gone.fencingToken);
    await fence.activate(grantOf(next));
    const stale = fence.write(grantOf(gone), (tx) => tx.call('RPUSH', dataKey, 'stale'));
    await expect(stale).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await fence.write(grantOf(next), (tx) => tx.call('RPUSH', dataKey, 'second'));
    expect(await cluster.lrange(dataKey, 0, -1)).toEqual(['first', 'second']);
  });

  test('and whose replica takes over keeps the leases that the replica had been told of', async () => {
    await using others = await RedisCluster.start(3);
    const [primary] = others.members as [(typeof others.members)[number]];
    const replica = await others.addReplica(primary);
    const client = new Cluster(others.addresses, { lazyConnect: true });
    const itsStore = redisStore(client);
    try {
      // Slots are shared out alike.
      const holder = acquireOf(await resourceAt(0));
      await itsStore.acquire(holder, call);
      await until(async () => (await replica.raw.dbsize()) === 1);
      const { shape, servers } = await itsStore.evidence(holder.resource, null, call);
      expect(shape).toEqual({ known: true, value: { kind: 'record' } });
      expect(servers).toMatchObject([
        { endpoint: `127.0.0.1:${primary.server.port}`, role: { value: 'master' } },
        { endpoint: `127.0.0.1:${replica.server.port}`, role: { value: 'replica' } },
      ]);
      await primary.server.kill();
      await replica.raw.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
      await until(async () => (await itsStore.extend([holder], call).catch(() => []))[0]?.verdict === 'extended');
      // While the client finds its way, single calls may still fail.
      const busy = () => itsStore.acquire(acquireOf(holder.resource), call).catch(() => null);
      await until(async () => (await busy())?.kind === 'busy');
      expect(await itsStore.release(releaseOf(holder), call)).toEqual({ kind: 'released' });
    } finally {
      await itsStore.close();
    }
  });
});

test('as a whole it is each primary with its replicas, by whatever node it is asked; one node alone is not it', async () => {
  const [first] = nodes.members as [(typeof nodes.members)[number]];
  const { usable, isCluster, servers, rights } = await store.survey(call);
  expect({ usable, isCluster, sentinels: null }).toMatchObject({ usable: { known: true }, isCluster: true });
  expect(servers.map(({ endpoint }) => endpoint).toSorted()).toEqual(
    nodes.members.map(({ server }) => `127.0.0.1:${server.port}`).toSorted(),
  );
  for (const { role, mode } of servers) {
    expect([role, mode]).toMatchObject([{ value: 'master' }, { value: 'cluster' }]);
  }
  expect(rights).toMatchObject({
    known: true,
    value: { missing: [], mayFlush: true, smallest: { own: redisAcl('leasehold', undefined, { cluster: true }) } },
  });
  const alone = redisStore(first.server.url);
  try {
    expect(await alone.survey(call)).toMatchObject({ isCluster: false, servers: [{ mode: { value: 'cluster' } }] });
  } finally {
    await alone.close();
  }
});

test('its primaries are no rivals: a lease on it is diagnosed as one that is held', async () => {
  const endpoints = nodes.addresses.map(({ host, port }) => `${host}:${port}`);
  const manager = new LeaseManager({ store: redisStore(cluster, { endpoints }) });
  try {
    await manager.acquire('r');
    const { verdict, evidence, servers } = await diagnose(manager, 'r');
    expect(servers.filter(({ role }) => role.known && role.value === 'master')).toHaveLength(3);
    expect(verdict.code).toBe('held');
    expect(evidence.find(({ id }) => id === 'E8')?.meaning).toContain('have different slots');
  } finally {
    await manager.close({ grace: 0, abandonAfter: 0 });
  }
});

test('a fenced write stays in the slot of its fence, or is refused before it is sent', async () => {
  const fence = redisFence(cluster, { key: () => 'leasehold-fence:{account:7}' });
  const grant = { resource: 'shop/account:7', fencingToken: Date.now() * 1000, leaseId: 'a'.repeat(32) };
  await fence.activate(grant);
  expect(fence.enforcing).toBe(true);
  const reply = await fence.write(grant, (tx) => tx.call<number>('INCRBY', '{account:7}:balance', 5));
  expect(reply.value).toBe(5);
  const astray = fence.write(grant, (tx) => {
    tx.call('INCRBY', '{account:7}:balance', 5);
    tx.call('INCRBY', 'account:8:balance', 5);
  });
  await expect(astray).rejects.toMatchObject({ code: 'CONFIG' });
  await expect(astray).rejects.toThrow(/account:8:balance is in another slot/);
  expect(await cluster.get('{account:7}:balance')).toBe('5');
});

test('the smallest rights suffice', async () => {
  const [, ...args] = redisAcl('leasehold', 'app', { cluster: true }).split(' ');
  await nodes.each('ACL', ...args, '>secret');
  const user = { username: 'app', password: 'secret' };
  const small = redisStore(new Cluster(nodes.addresses, { lazyConnect: true, redisOptions: user }));
  try {
    const heard: string[] = [];
    await small.subscribe('leasehold:owner:us', ({ kind }) => void heard.push(kind));
    for (const node of [0, 1, 2]) {
      const holder = acquireOf(await resourceAt(node), { channel: 'leasehold:owner:us' });
      expect(await small.acquire(holder, call)).toMatchObject({ kind: 'granted' });
      await small.revoke({ ...holder, operator: 'ann', reason: 'why not' }, call);
    }
    await until(async () => heard.length === 3);
    const found: string[] = [];
    for await (const { resource } of small.list(call)) found.push(resource);
    expect(found).toHaveLength(3);
    // By ASK.
    const resource = await resourceAt(0);
    const [from, to] = nodes.members as [never, never];
    const slot = await nodes.slotOf(key(resource));
    await nodes.beginMove(slot, from, to);
    await nodes.moveKeys(slot, from, to);
    expect(await small.extend([{ resource, leaseId: 'x', ttlMs: 1000 }], call)).toEqual([
      { verdict: 'lost', reason: 'superseded' },
    ]);
    await nodes.endMove(slot, from, to);
  } finally {
    await small.close();
  }
});

test('a client handed in goes on', async () => {
  await store.connect();
  await store.close();
  expect(await cluster.ping()).toBe('PONG');
  await using raw = await connectRedis(nodes.members[0]?.server.url ?? '');
  await until(async () => !String(await raw.client('LIST')).includes('cmd=evalsha'));
});
