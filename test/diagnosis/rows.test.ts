// Every row of the table of verdicts, on real processes and servers that are in that state.
import { LeaseManager, MemoryFence, type Fence, type LeaseManagerOptions, type LeaseStore } from '@leasehold/core';
import { diagnose, seal, type DiagnoseOptions, type Diagnosis, type VerdictCode } from '@leasehold/core/diagnosis';
import { redisDiagnosisAcl, redisFence, redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { newLeaseId } from '../../packages/core/src/lease/lease-id.ts';
import { acquireOf, call, releaseOf } from '../redis/requests.ts';
import { startChild } from '../support/child.ts';
import { FakeTime } from '../support/faketime.ts';
import { FarRedis } from '../support/far-redis.ts';
import { testNeeding } from '../support/needing.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { until } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { incident } from './release-support.ts';

const member = new URL('../e2e/fixtures/member.ts', import.meta.url);
/** Of most leases here: long enough for a machine that is busy, short enough to be watched to its end. */
const TTL_MS = 3500;

/** What is allowed now: `a` acquire, `r` revoke, `f` a release by force, `u` one without a fence. */
function row({ verdict }: Diagnosis): string {
  const { acquire, revoke, forceRelease, forceReleaseUnfenced } = verdict.allowed;
  const letters = [acquire && 'a', revoke && 'r', forceRelease.allowed && 'f', forceReleaseUnfenced.allowed && 'u'];
  return `${verdict.code}: ${letters.filter((letter) => letter !== false).join('') || 'nothing'}`;
}

/** Diagnoses until it is this, and fails if it becomes anything else before that but what it is first. */
async function turnsInto(
  code: VerdictCode,
  ask: () => Promise<Diagnosis>,
  { from }: { readonly from: readonly VerdictCode[] },
): Promise<Diagnosis> {
  for (;;) {
    const found = await ask();
    if (found.verdict.code === code) return found;
    expect(from).toContain(found.verdict.code);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function managerOf(store: LeaseStore | string, options: Partial<LeaseManagerOptions> = {}) {
  const manager = new LeaseManager({
    store: typeof store === 'string' ? redisStore(store) : store,
    ...{ ttl: TTL_MS, ...options },
  });
  return Object.assign(manager, {
    // Whatever it holds is left as it is.
    [Symbol.asyncDispose]: async () => void (await manager.close({ grace: 0, abandonAfter: 0 })),
  });
}

describe.concurrent('diagnosed as it is: an owner that', () => {
  test('was killed: first its lease runs, then it ran out, then two signals agree, then it is free', async () => {
    await using here = await incident(TTL_MS);
    await here.hold('r');
    await here.owner.kill9();
    const look = (options: DiagnoseOptions = {}) => diagnose(here.operator, 'r', { fences: [here.ledger], ...options });
    const running = await turnsInto('orphaned-running', look, { from: ['held'] });
    expect(row(running)).toBe('orphaned-running: r');
    expect(running.verdict.waitFor?.ms).toBeLessThanOrEqual(TTL_MS);
    const over = await turnsInto('expired', look, { from: ['orphaned-running'] });
    expect(row(over)).toBe('expired: a');
    const [gone, unseen, unfenced, stranger] = await Promise.all([
      look({ observe: true }),
      look({ observe: true, probes: [] }),
      look({ observe: true, probes: [], fences: [] }),
      look({ observe: true, probes: [], fences: [new MemoryFence()] }),
    ]);
    expect(row(gone)).toBe('orphaned: afu');
    expect(row(unseen)).toBe('stale-suspect: afu');
    // A fence that knows nobody of this resource is no fence of it.
    for (const each of [unfenced, stranger]) expect(row(each)).toBe('stale-unfenced: au');
    const next = await here.operator.acquire('r', { fences: [here.ledger] });
    expect(row(await look())).toBe('held: r');
    await next.release();
    expect(row(await look())).toBe('released: a');
  });

  test('is stopped: paused, and once it ran out it exists still', async () => {
    await using here = await incident(TTL_MS);
    await here.hold('r');
    await here.owner.stop();
    const look = () => diagnose(here.operator, 'r', { fences: [here.ledger] });
    // At once: its last extension was a moment ago.
    const paused = await look();
    expect(row(paused)).toBe('paused: r');
    const over = await turnsInto('expired-alive', look, { from: ['paused'] });
    expect(row(over)).toBe('expired-alive: a');
    expect(over.verdict.allowed.forceRelease.missing).toContainEqual(expect.stringContaining('process is stopped'));
  });

  test('lives: held, also behind a seal that the log has; one that it has not: its token is behind; asked to end: revoked; it blocks: silent', async () => {
    await using here = await incident(TTL_MS);
    for (const resource of ['asked', 'sealed', 'blocks']) await here.hold(resource);
    const look = (resource: string) => diagnose(here.operator, resource, { fences: [here.ledger] });
    expect(row(await look('blocks'))).toBe('held: r');
    await here.operator.revoke('asked', { reason: 'drill' });
    expect(row(await look('asked'))).toBe('revoked: r');
    await seal(here.operator, 'sealed', { fences: [here.ledger], reason: 'drill' });
    const sealed = await look('sealed');
    expect(row(sealed)).toBe('held: r');
    expect(sealed.verdict.sentence).toContain('sealed by hand, as the log of the resource tells');
    // By who has only the fence.
    await here.ledger.seal(`${here.operator.namespace}/sealed`, (sealed.fences[0]?.highest ?? 0) + 1);
    const regressed = await look('sealed');
    expect(row(regressed)).toBe('token-regressed: r');
    expect(regressed.verdict.sentence).toContain('does not say by whom');
    here.owner.send('do', { op: 'block', resource: '' });
    await here.owner.next('blocking');
    const silent = await turnsInto('silent', () => look('blocks'), { from: ['held'] });
    expect(row(silent)).toBe('silent: r');
    expect(silent.owner.state).toBe('alive');
  });

  test('lost its way to the store, which heard the end of its connection: partitioned', async () => {
    await using proxy = await TcpProxy.start({ port: Number(new URL(inject('redisUrl')).port) });
    await using here = await incident(TTL_MS, proxy.redisUrl);
    await here.hold('r');
    proxy.refuse();
    proxy.cut();
    const look = () => diagnose(here.operator, 'r', { fences: [here.ledger] });
    // Who may not list connections cannot know it.
    await using admin = await connectRedis(inject('redisUrl'));
    const user = uniqueName('poor');
    const [, ...rights] = redisDiagnosisAcl(here.operator.namespace, user).split(' ');
    await admin.call('ACL', ...rights, '-client|list', '>secret');
    const poorUrl = inject('redisUrl').replace('redis://', `redis://${user}:secret@`);
    await using poor = managerOf(redisStore(poorUrl, { prefix: here.operator.namespace }));
    const cut = await turnsInto('partitioned', look, { from: ['held'] });
    expect(row(cut)).toBe('partitioned: r');
    expect(cut.owner.state).toBe('alive');
    const unseen = await diagnose(poor, 'r');
    expect(row(unseen)).toBe('silent: r');
    expect(unseen.evidence.find(({ id }) => id === 'E6')?.value).toBe('not permitted');
    await admin.call('ACL', 'DELUSER', user);
    expect(row(await turnsInto('expired-alive', look, { from: ['partitioned'] }))).toBe('expired-alive: a');
  });

  testNeeding(
    'namespaces',
    'ended in a container, where another has its pid now: gone, for who can see that',
    async () => {
      const [url, prefix] = [inject('redisUrl'), uniqueName('inside')];
      const env = { REDIS_URL: url, PREFIX: prefix, TTL_MS: '2000' };
      // Once it has ended, its number is given to another.
      const script = `"$@" & pid=$!; wait $pid
      while :; do echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 & [ $! = $pid ] && break; kill -9 $!; done
      echo again; wait`;
      const container = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
      await using owner = startChild(member, { env, within: [...container, 'sh', '-c', script, 'sh'] });
      // In a container beside it.
      await using onlooker = startChild(new URL('./fixtures/onlooker.ts', import.meta.url), { env, within: container });
      await Promise.all([owner.next('ready'), onlooker.next('ready')]);
      owner.send('do', { op: 'hold', resource: 'r', fenced: true });
      await owner.next('holds');
      owner.send('do', { op: 'die', resource: '' });
      while (!owner.output.includes('again')) await new Promise((resolve) => setTimeout(resolve, 20));

      await using operator = managerOf(redisStore(url, { prefix }));
      await using client = await connectRedis(url);
      const fences = [redisFence(client, { name: 'ledger' })];
      const here = (observe = false) => diagnose(operator, 'r', { fences, observe });
      const beside = async (observe = false): Promise<Diagnosis> => {
        onlooker.send('look', { resource: 'r', observe });
        return (await onlooker.next<{ diagnosis: Diagnosis }>('seen')).diagnosis;
      };
      const [gone, unseen] = await Promise.all([here(), beside()]);
      expect(gone.owner).toMatchObject({ state: 'gone', detail: expect.stringContaining('is another process now') });
      expect(unseen.owner.state).toBe('unverifiable');
      await turnsInto('expired', () => here(), { from: ['held', 'orphaned-running'] });
      const watched = await Promise.all([here(true), beside(true)]);
      // What it cannot see is not held against the release: the fence is what makes it safe.
      expect(watched.map(row)).toEqual(['orphaned: afu', 'stale-suspect: afu']);
    },
  );

  testNeeding('networks', 'whose cable is drawn: silent as long as TCP hopes, then partitioned', async () => {
    await using server = await FarRedis.start();
    const prefix = uniqueName('far');
    // The server counts it as gone within 4 s, and it is late after 8.
    const env = { REDIS_URL: server.url, PREFIX: prefix, TTL_MS: '12000' };
    await using owner = startChild(member, { env, within: server.within });
    await owner.next('ready');
    owner.send('do', { op: 'hold', resource: 'r' });
    await owner.next('holds');
    await using operator = managerOf(redisStore({ path: server.socket }, { prefix }));
    const connections = async (): Promise<string> => {
      const found = await diagnose(operator, 'r');
      expect(row(found)).toBe('held: r');
      return found.evidence.find(({ id }) => id === 'E6')?.value ?? '';
    };
    // For a reply that was not acknowledged TCP would hope for a quarter of an hour.
    const QUIET = /^10\.99\.0\.2:\d+ \(idle [1-9]\d*\.0 s\), 10\.99\.0\.2:\d+ \(idle [1-9]\d*\.0 s\)$/;
    while (!QUIET.test(await connections())) await new Promise((resolve) => setTimeout(resolve, 50));
    server.cut();
    const cut = await turnsInto('partitioned', () => diagnose(operator, 'r'), { from: ['held', 'silent'] });
    expect(row(cut)).toBe('partitioned: r');
    expect(cut.owner.state).toBe('alive');
  });
});

describe.concurrent('diagnosed as it is: a store that', () => {
  test('is a replica or cannot be reached: unknown; that was promoted beside its master: split brain', async () => {
    await using former = await startRedis();
    await using other = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
    await using raw = await connectRedis(other.url);
    await using owner = managerOf(former.url);
    await owner.acquire('r');
    await raw.replicaof('127.0.0.1', former.port);
    await using replica = managerOf(other.url);
    await until(async () => (await raw.info('replication')).includes('master_link_status:up'));
    const behind = await diagnose(replica, 'r');
    expect(row(behind)).toBe('unknown: nothing');
    expect(behind.verdict.sentence).toContain('is a replica');
    await raw.replicaof('NO', 'ONE');
    const endpoints = [`127.0.0.1:${other.port}`];
    await using operator = managerOf(redisStore(former.url, { endpoints }));
    expect(row(await diagnose(operator, 'r'))).toBe('split-brain: nothing');
    await former.kill();
    await using late = managerOf(redisStore(former.url, { connectTimeout: 200 }));
    expect(row(await diagnose(late, 'r'))).toBe('unknown: nothing');
  });

  test('has what is not ours at the key: foreign, left alone, and named', async () => {
    const [prefix, url] = [uniqueName('foreign'), inject('redisUrl')];
    await using client = await connectRedis(url);
    await using operator = managerOf(redisStore(url, { prefix }));
    await client.set(`${prefix}:{r}`, newLeaseId(), 'PX', 60_000);
    const found = await diagnose(operator, 'r', { fences: [redisFence(client)] });
    expect(row(found)).toBe('foreign: nothing');
    expect(found.evidence[0]?.value).toMatch(/^string: /);
  });

  test('keeps the turn of somebody who waits: waiting for it', async () => {
    const [prefix, url] = [uniqueName('turn'), inject('redisUrl')];
    await using operator = managerOf(redisStore(url, { prefix }));
    const store = redisStore(url, { prefix });
    const held = acquireOf('r');
    await store.acquire(held, call);
    await store.acquire(acquireOf('r', { mode: 'wait' }), call);
    await store.release(releaseOf(held), call);
    const found = await diagnose(operator, 'r');
    expect(row(found)).toBe('waiting-turn: nothing');
    expect(found.verdict.waitFor?.ms).toBeLessThanOrEqual(500);
    await store.close();
  });

  test('threw the record away to make room: evicted', async () => {
    await using server = await startRedis({ args: ['--maxmemory', '4mb', '--maxmemory-policy', 'allkeys-lru'] });
    await using raw = await connectRedis(server.url);
    await using owner = managerOf(server.url, { ttl: '60s' });
    const lease = await owner.acquire('r');
    for (let at = 0; (await raw.exists('leasehold:{r}')) === 1; at++) await raw.set(`filler:${at}`, 'x'.repeat(10_000));
    const found = await diagnose(owner, 'r');
    expect(row(found)).toBe('evicted: a');
    expect(found.verdict.waitFor).toMatchObject({ ms: 60_000 });
    // Why it says so: its owner trusts it still.
    expect(lease.isHeld()).toBe(true);
  });

  test('was started again, empty: data lost, and who keeps the quarantine is kept waiting for a ttl', async () => {
    await using server = await startRedis();
    await using owner = managerOf(server.url);
    await owner.acquire('r');
    await server.kill();
    await server.restart();
    // Whoever has seen the restart waits, whatever it was told; and who was told to, also if it comes only now.
    await using keeps = managerOf(server.url, { quarantine: true });
    await using ignores = managerOf(server.url);
    await keeps.inspect('r');
    for (const manager of [owner, keeps]) {
      const kept = await turnsInto('data-lost', () => diagnose(manager, 'r'), { from: ['unknown'] });
      expect(row(kept)).toBe('data-lost: nothing');
      expect(kept.verdict.waitFor?.what).toMatch(/^the quarantine: /);
      expect(kept.verdict.waitFor?.ms).toBeLessThanOrEqual(TTL_MS);
      expect(await manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'quarantine' });
    }
    // Another would be let in: the verdict says for how long that is early.
    const open = await diagnose(ignores, 'r');
    expect(row(open)).toBe('data-lost: a');
    expect(open.verdict.waitFor?.what).toContain('an owner may trust it');
    await until(async () => (await diagnose(keeps, 'r')).verdict.allowed.acquire);
    await keeps.acquire('r');
    expect(row(await diagnose(keeps, 'r'))).toBe('held: r');
  });

  testNeeding(
    'libfaketime',
    'is old and empty: free; was flushed: data lost; set its clock back: told so',
    async () => {
      using time = new FakeTime();
      await using server = await startRedis({ faketime: time });
      await using raw = await connectRedis(server.url);
      await using data = await connectRedis(inject('redisUrl'));
      const fences: readonly Fence[] = [redisFence(data)];
      // So old that whatever it lost at its start has run out.
      time.step(120_000);
      await using owner = managerOf(redisStore(server.url, { prefix: uniqueName('old') }), { ttl: '30s' });
      const look = () => diagnose(owner, 'r', { fences });
      expect(row(await look())).toBe('free: a');
      await owner.acquire('r', { fences });
      expect(row(await look())).toBe('held: r');
      await raw.flushall();
      const flushed = await look();
      expect(row(flushed)).toBe('data-lost: a');
      // Nobody knows when that was.
      expect(flushed.verdict).toMatchObject({
        waitFor: { ms: 30_000 },
        sentence: expect.stringContaining('a fence has admitted token'),
      });
      // The only witness was the fence.
      expect(row(await diagnose(owner, 'r'))).toBe('free: a');
      await owner.acquire('clock', { fences });
      time.step(60_000);
      const back = await diagnose(owner, 'clock', { fences });
      expect(row(back)).toBe('clock-regressed: r');
      expect(back.verdict.waitFor).toMatchObject({ ms: 30_000 });
      time.step(120_000);
    },
  );
});
