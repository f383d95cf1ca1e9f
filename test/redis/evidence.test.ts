import { LeaseManager, type OwnerIdentity } from '@leasehold/core';
import { diagnose } from '@leasehold/core/diagnosis';
import { redisDiagnosisAcl, redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { until } from '../support/redis-cluster.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { SentinelGroup } from '../support/redis-sentinel.ts';
import { clients, storeOn } from './clients.ts';
import { acquireOf, call, cancelOf, releaseOf } from './requests.ts';

let primary: RedisServer;
let replica: RedisServer;
let raw: Redis;
let rawReplica: Redis;
let us: OwnerIdentity;

beforeAll(async () => {
  const args = ['--repl-diskless-sync-delay', '0', '--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'];
  const durable = ['--appendonly', 'yes', '--save', '3600 1', '--min-replicas-to-write', '0'];
  [primary, replica] = await Promise.all([
    startRedis({ args: [...args, ...durable], scope: 'file' }),
    startRedis({ args: ['--repl-diskless-sync-delay', '0'], scope: 'file' }),
  ]);
  raw = await connectRedis(primary.url);
  rawReplica = await connectRedis(replica.url);
  await follow();
  const store = redisStore(primary.url);
  await store.connect();
  const instance = await seen(async () => /name=leasehold:(\S+)/.exec(String(await raw.client('LIST')))?.[1]);
  us = { ...{ instance, name: 'us', host: 'here', pid: process.pid }, startedAt: new Date().toISOString() };
  await store.close();
});

/** Asks until there is something to see. */
async function seen<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await ask();
    if (found !== undefined) return found;
  }
}

async function follow(): Promise<void> {
  await rawReplica.replicaof('127.0.0.1', primary.port);
  await until(async () => (await rawReplica.info('replication')).includes('master_link_status:up'));
  await until(async () => (await raw.info('replication')).includes('state=online'));
}

afterAll(async () => {
  raw.disconnect();
  rawReplica.disconnect();
  await primary.stop();
  await replica.stop();
});

const is = <T>(value: T) => ({ known: true, value });
const isNot = (why: string) => expect.objectContaining({ known: false, why });
const at = ({ port }: RedisServer): string => `127.0.0.1:${port}`;

async function named(name: string): Promise<number> {
  return String(await raw.client('LIST')).split(`name=${name} `).length - 1;
}

/** Those of tests before may take a moment. */
async function storesGone(): Promise<void> {
  await until(async () => (await named(`leasehold:${us.instance}`)) === 0);
}

const as = (user: string): string => primary.url.replace('redis://', `redis://${user}:secret@`);

function allowed(line: string, ...more: string[]): [string, ...string[]] {
  const [command = '', ...args] = line.split(' ');
  return [command, ...args, ...more, '>secret'];
}

describe.each(clients)('%s', (_, connect) => {
  test('tells what the server and its replica are, how they write, and whom the owner has connected', async () => {
    const [store, resource] = [storeOn(connect(primary.url)), uniqueName()];
    await store.acquire(acquireOf(resource), call);
    const before = Date.now();
    const { shape, key, servers, connections } = await store.evidence(resource, us, call);
    expect({ shape, key }).toEqual({ shape: is({ kind: 'record' }), key: `leasehold:{${resource}}` });
    expect(servers).toHaveLength(2);
    const info = await raw.info();
    const field = (name: string): string => new RegExp(`^${name}:(.*)\r$`, 'm').exec(info)?.[1] ?? '';
    expect(servers[0]).toMatchObject({
      endpoint: at(primary),
      version: is(field('redis_version')),
      role: is('master'),
      runId: is(field('run_id')),
      replicationId: is(field('master_replid')),
      previousReplicationId: is(''),
      loading: is(false),
      linkUp: is(null),
      replicas: { known: true, value: [{ endpoint: at(replica) }] },
      evictionPolicy: is('allkeys-lru'),
      evictedKeys: is(0),
      maxBytes: is(64 * 2 ** 20),
      persistence: is({ appendOnly: true, fsync: 'everysec', snapshots: '3600 1', error: '' }),
      minReplicas: is(0),
    });
    expect(servers[1]).toMatchObject({
      endpoint: at(replica),
      role: is('replica'),
      linkUp: is(true),
      replicationId: is(field('master_replid')),
      persistence: is({ appendOnly: false, fsync: '', snapshots: '', error: '' }),
    });
    const { clockOffset, uptimeMs, usedBytes } = servers[0] ?? {};
    if (clockOffset?.known !== true || uptimeMs?.known !== true || usedBytes?.known !== true)
      throw new Error('unknown');
    // One clock, read by two: they differ by the error at most, and by what is rounded.
    expect(Math.abs(clockOffset.value.offsetMs)).toBeLessThanOrEqual(clockOffset.value.errorMs + 2);
    expect(clockOffset.value.errorMs).toBeLessThanOrEqual(Date.now() - before);
    expect(uptimeMs.value % 1000).toBe(0);
    expect(usedBytes.value).toBeGreaterThan(100_000);
    const name = `leasehold:${us.instance}`;
    const listed = String(await raw.client('LIST')).split('\n');
    const named = listed.filter((line) => line.includes(` name=${name} `));
    if (!connections.known) throw new Error(connections.detail);
    expect(connections.value.length).toBeGreaterThanOrEqual(1);
    for (const line of named)
      expect(connections.value.map(({ address }) => address)).toContain(/ addr=(\S+)/.exec(line)?.[1]);
  });

  test('leaves no connection behind', async () => {
    const store = storeOn(connect(primary.url), { endpoints: [at(replica)] });
    await store.connect();
    await store.evidence(uniqueName(), us, call);
    const named = async (client: Redis) => String(await client.client('LIST')).split('name=leasehold:').length - 1;
    await until(async () => (await named(rawReplica)) === 0);
    await until(async () => (await named(raw)) === 1);
    expect(await store.read(uniqueName(), call)).toBeNull();
  });
});

test('a foreign key is shown by its type, in short and escaped, with its time to live', async () => {
  const store = storeOn(primary.url);
  const names = ['string', 'hash', 'list', 'set', 'zset', 'stream', 'long', 'half'].map((name) => [name, uniqueName()]);
  const resources = Object.fromEntries(names) as Record<string, string>;
  const key = (name: string): string => `leasehold:{${resources[name]}}`;
  await raw.set(key('string'), 'ADDED:\u001b[2J\n"x"', 'PX', 60_000);
  await raw.hset(key('hash'), 'client:1', '2', 'mode', 'write');
  await raw.rpush(key('list'), 'a', 'b');
  await raw.sadd(key('set'), 'a');
  await raw.zadd(key('zset'), '1.5', 'a');
  await raw.xadd(key('stream'), '1-1', 'a', 'b');
  await raw.set(key('long'), `${'x'.repeat(511)}\u{1f600}${'y'.repeat(1000)}`);
  await raw.hset(key('half'), 'fencing_token', '5', 'owner', 'somebody');
  const shape = async (name: string) => (await store.evidence(resources[name] ?? '', null, call)).shape;
  const foreign = (type: string, preview: string) => is({ kind: 'foreign', type, preview, ttlMs: null });
  const string = await shape('string');
  expect(string).toMatchObject(is({ kind: 'foreign', type: 'string', preview: 'ADDED:\\u001b[2J\\u000a"x"' }));
  if (!string.known || string.value.kind !== 'foreign') throw new Error('not foreign');
  expect(string.value.ttlMs).toBeGreaterThan(30_000);
  expect(string.value.ttlMs).toBeLessThanOrEqual(60_000);
  expect(await shape('hash')).toEqual(foreign('hash', 'client:1=2 mode=write'));
  expect(await shape('list')).toEqual(foreign('list', 'a b'));
  expect(await shape('set')).toEqual(foreign('set', 'a'));
  expect(await shape('zset')).toEqual(foreign('zset', 'a=1.5'));
  expect(await shape('stream')).toEqual(foreign('stream', '1-1 a b'));
  expect(await shape('long')).toMatchObject({ value: { preview: expect.stringMatching(/^x{511}.?$/) as string } });
  expect(await shape('half')).toEqual(foreign('hash', 'fencing_token=5 owner=somebody'));
  expect((await store.evidence(uniqueName(), null, call)).shape).toEqual(is({ kind: 'absent' }));
});

test('a record with tombstones alone, and one that was released, are records', async () => {
  const store = storeOn(primary.url);
  const [cancelled, released] = [acquireOf(uniqueName()), acquireOf(uniqueName())];
  await store.cancel(cancelOf(cancelled), call);
  await store.acquire(released, call);
  await store.release(releaseOf(released), call);
  for (const { resource } of [cancelled, released]) {
    expect((await store.evidence(resource, null, call)).shape).toEqual(is({ kind: 'record' }));
  }
});

describe('connections of an owner', () => {
  const nobody = (): OwnerIdentity => ({ ...us, instance: 'somebody-else' });

  test('are none where names are given and none is its', async () => {
    const store = storeOn(primary.url);
    expect((await store.evidence('r', nobody(), call)).connections).toEqual(is([]));
    expect((await store.evidence('r', null, call)).connections).toEqual(isNot('not-known'));
  });

  test('are not known where the user names connections, and that name is kept', async () => {
    await using client = await connectRedis(primary.url, { connectionName: 'ours' });
    const node = createClient({ url: primary.url, name: 'ours' });
    await storesGone();
    for (const source of [`${primary.url}?connectionName=ours`, client, node]) {
      const store = storeOn(source);
      expect((await store.evidence('r', nobody(), call)).connections).toEqual(isNot('not-known'));
      expect(await named('ours')).toBeGreaterThan(source === client ? 1 : 0);
      await store.close();
    }
  });

  test('are not known where it may not be named', async () => {
    await storesGone();
    await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'nameless'), '-client|setname'));
    for (const [, connect] of clients) {
      const store = storeOn(connect(as('nameless')));
      expect((await store.evidence('r', nobody(), call)).connections).toEqual(isNot('not-known'));
    }
  });

  test('only our own are named, not those of the user', async () => {
    await using client = await connectRedis(primary.url);
    const store = storeOn(client);
    await store.connect();
    await until(async () => (await named(`leasehold:${us.instance}`)) > 0);
    expect(await client.client('GETNAME')).toBeNull();
  });
});

describe('rights', () => {
  test('of diagnosis are enough for all, but for what only CONFIG tells', async () => {
    await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'doctor')));
    const [owner, store] = [storeOn(primary.url), storeOn(as('doctor'))];
    const held = acquireOf(uniqueName(), { owner: { line: 'us', json: '{}' } });
    await owner.acquire(held, call);
    const evidence = await store.evidence(held.resource, us, call);
    expect(unknownOf(evidence.servers[0])).toEqual(['settings']);
    expect(evidence.servers[0]).toMatchObject({
      persistence: { value: { appendOnly: true, fsync: '', snapshots: '' } },
    });
    expect(evidence.shape.known && evidence.connections.known).toBe(true);
    expect(await store.read(held.resource, call)).toMatchObject({ leaseId: held.leaseId });
    expect(await store.history(held.resource, 5, call)).toEqual([]);
    await expect(store.release(releaseOf(held), call)).rejects.toMatchObject({ code: 'STORE_AUTH' });
    await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'doctor', { config: true })));
    const { servers } = await store.evidence(held.resource, us, call);
    expect(servers[0]).toMatchObject({ persistence: { value: { fsync: 'everysec', snapshots: '3600 1' } } });
  });

  test('that are missing leave out that piece and nothing else', async () => {
    const store = storeOn(as('poor'));
    for (const [right, missing] of [
      ['info', ['version', 'runId', 'usedBytes', 'persistence', 'uptimeMs', 'linkUp', 'replicas']],
      ['time', ['clockOffset']],
    ] as const) {
      await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'poor', { config: true }), '+role', `-${right}`));
      const { servers, shape } = await store.evidence(uniqueName(), us, call);
      expect(unknownOf(servers[0])).toEqual(expect.arrayContaining([...missing]));
      expect(unknownOf(servers[0]).length).toBeLessThan(16 - (right === 'info' ? 2 : 14));
      expect(servers[0]?.role).toEqual(is('master'));
      expect(shape).toEqual(is({ kind: 'absent' }));
    }
    await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'poor'), '-client|list', '-type'));
    const { shape, connections, servers } = await store.evidence(uniqueName(), us, call);
    expect([shape, connections]).toEqual([isNot('not-permitted'), isNot('not-permitted')]);
    expect(unknownOf(servers[0])).toEqual(['settings']);
  });
});

test('a server that may not say which it is, and is known by two addresses, is no second master', async () => {
  await raw.call(...allowed(redisDiagnosisAcl('leasehold', 'blind'), '+role', '-info'));
  const resource = uniqueName();
  await storeOn(primary.url).acquire(acquireOf(resource), call);
  // It may read only, which is all that diagnosis does.
  const store = redisStore(as('blind'), { endpoints: [`localhost:${primary.port}`] });
  const manager = new LeaseManager({ store });
  const { verdict, evidence, servers } = await diagnose(manager, resource);
  await manager.close();
  expect(servers.filter(({ role }) => role.known && role.value === 'master')).toHaveLength(2);
  expect(verdict.code).toBe('held');
  expect(evidence.find(({ id }) => id === 'E8')?.caveat).toContain('they count as one');
});

/** Which pieces are not known. */
function unknownOf(server: object | undefined): string[] {
  const pieces = Object.entries(server ?? {}) as [string, { readonly known?: boolean }][];
  return pieces.filter(([, { known }]) => known === false).map(([name]) => name);
}

describe('servers out of reach', () => {
  test('one that says nothing is unreachable within the time given, and hides no other', async () => {
    const silent = await TcpProxy.start({ port: primary.port });
    await using _ = { [Symbol.asyncDispose]: () => silent.close() };
    silent.swallow('down');
    const store = storeOn(`redis://${silent.host}:${silent.port}`, { endpoints: [at(replica), '127.0.0.1:1'] });
    const began = performance.now();
    const { shape, connections, servers } = await store.evidence('r', us, { timeoutMs: 400 });
    expect(performance.now() - began).toBeLessThan(2_000);
    expect([shape, connections]).toEqual([isNot('unreachable'), isNot('unreachable')]);
    expect(servers.map(({ role }) => role)).toEqual([
      isNot('unreachable'),
      is('replica'),
      isNot('unreachable'),
      is('master'),
    ]);
  });

  test('one that loads its data says so to a connection of its own', async () => {
    // It takes its time with each key, and answers in between.
    const slow = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];
    await using server = await startRedis({ args: ['--enable-debug-command', 'yes', ...slow] });
    await using filler = await connectRedis(server.url);
    await using watcher = await connectRedis(server.url);
    await filler.mset(
      Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`key ${index}`, 'x'.repeat(100)])),
    );
    const reloaded = filler.call('DEBUG', 'RELOAD').catch(() => {});
    await until(async () => (await watcher.info('persistence')).includes('loading:1'));
    const { shape, servers } = await storeOn(server.url).evidence('r', us, { timeoutMs: 1500 });
    expect(servers).toMatchObject([{ loading: is(true), role: is('master') }]);
    expect(shape).toEqual(isNot('unreachable'));
    await server.kill();
    await reloaded;
  });

  test('a store that is closed rejects', async () => {
    const store = storeOn(primary.url);
    await store.close();
    await expect(store.evidence('r', null, call)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  });

  test('addresses of further servers are checked', () => {
    for (const endpoint of ['redis://127.0.0.1:6379', 'localhost', 'a:0', 'u:p@h:1', '::1:6379']) {
      expect(() => redisStore(primary.url, { endpoints: [endpoint] })).toThrow(/endpoints: has .*<host>:<port>/);
    }
    expect(() => redisStore(primary.url, { endpoints: ['[::1]:6379'] })).not.toThrow();
  });
});

test('Sentinel names servers that the primary does not know: each is asked once', async () => {
  await using group = await SentinelGroup.start();
  const store = storeOn(group.connection);
  const roles = async () => {
    const { servers } = await store.evidence('r', us, call);
    return servers.map(({ endpoint, role }) => [endpoint, role]);
  };
  expect(await roles()).toEqual([
    [at(group.primary), is('master')],
    [at(group.replica), is('replica')],
  ]);
  // Behind the back of Sentinel, which will mend it, but not at once.
  await using stray = await connectRedis(group.replica.url);
  await stray.replicaof('NO', 'ONE');
  await using chief = await connectRedis(group.primary.url);
  await until(async () => (await chief.info('replication')).includes('connected_slaves:0'));
  expect(await roles()).toEqual([
    [at(group.primary), is('master')],
    [at(group.replica), is('master')],
  ]);
});

// The last one: nothing is a replica any more behind it.
test('a replica that was promoted, beside a primary that goes on: two masters, of one past', async () => {
  const [store, promoted] = [storeOn(primary.url, { endpoints: [at(replica)] }), storeOn(replica.url)];
  const before = (await store.evidence('r', us, call)).servers[0]?.replicationId;
  await rawReplica.replicaof('NO', 'ONE');
  const { servers } = await store.evidence('r', us, call);
  expect(servers.map(({ endpoint, role }) => [endpoint, role])).toEqual([
    [at(primary), is('master')],
    [at(replica), is('master')],
  ]);
  const [alone] = (await promoted.evidence('r', us, call)).servers;
  expect(alone).toMatchObject({ previousReplicationId: before, role: is('master') });
  expect(alone?.replicationId).not.toEqual(before);
});
