import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

const redisUrl = inject('redisUrl');
const member = new URL('./fixtures/member.ts', import.meta.url);
const TTL_MS = 1500;
const REFRESH_MS = 500;
const CLAIM_MS = 150;

async function fleet(count: number, prefix: string, url = redisUrl): Promise<Child[]> {
  const children = Array.from({ length: count }, () =>
    startChild(member, { env: { REDIS_URL: url, PREFIX: prefix, TTL_MS: String(TTL_MS) } }),
  );
  await Promise.all(children.map((child) => child.next('ready')));
  return children;
}

/** Lets each child queue in turn: the next one when the one before has its place. */
async function queue(children: readonly Child[], observer: LeaseManager): Promise<void> {
  for (const child of children) {
    const before = (await observer.inspect('r'))?.waiting ?? 0;
    child.send('do', { op: 'pass', resource: 'r' });
    await expect.poll(async () => (await observer.inspect('r'))?.waiting, { interval: 5 }).toBe(before + 1);
  }
}

async function endAll(children: readonly Child[], observer: LeaseManager): Promise<void> {
  await Promise.all(children.map((child) => child.kill9()));
  await observer.close({ grace: 0, abandonAfter: 0 });
}

function manager(prefix: string, url = redisUrl): LeaseManager {
  return new LeaseManager({ store: redisStore(url, { prefix }), ttl: TTL_MS });
}

describe('waiters in several processes', () => {
  test('eight in two processes are served in order, each within moments of the one before', async () => {
    const prefix = uniqueName();
    const observer = manager(prefix);
    const children = await fleet(2, prefix);
    const holder = await observer.acquire('r');
    const turns = Array.from({ length: 8 }, (_, index) => children[index % 2] as Child);
    await queue(turns, observer);
    const from = performance.now();
    await holder.release();
    const tokens: number[] = [];
    for (const child of turns) tokens.push((await child.next<{ fencingToken: number }>('entered')).fencingToken);
    // A later token is a later entry: they came in the order in which they had queued.
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(performance.now() - from).toBeLessThan(8 * CLAIM_MS);
    await endAll(children, observer);
  });

  test('one killed at the head and one in the middle cost a claim or two, not a ttl', async () => {
    const prefix = uniqueName();
    const observer = manager(prefix);
    const children = await fleet(5, prefix);
    const holder = await observer.acquire('r');
    await queue(children, observer);
    const [head, second, middle, fourth, last] = children as [Child, Child, Child, Child, Child];
    await Promise.all([head.kill9(), middle.kill9()]);
    const from = performance.now();
    await holder.release();
    const tokens: number[] = [];
    for (const child of [second, fourth, last])
      tokens.push((await child.next<{ fencingToken: number }>('entered')).fencingToken);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(performance.now() - from).toBeLessThan(2 * (REFRESH_MS + CLAIM_MS) + 200);
    await endAll([second, fourth, last], observer);
  });

  test.each([
    ['at the head', 0],
    ['in the middle', 1],
  ])('one stopped %s loses its turn, and gets another when it wakes up', async (_, place) => {
    const prefix = uniqueName();
    const observer = manager(prefix);
    const children = await fleet(3, prefix);
    const holder = await observer.acquire('r');
    await queue(children, observer);
    const stopped = children[place] as Child;
    await stopped.stop();
    await holder.release();
    const tokens: number[] = [];
    for (const child of children.filter((each) => each !== stopped)) {
      tokens.push((await child.next<{ fencingToken: number }>('entered')).fencingToken);
    }
    stopped.cont();
    tokens.push((await stopped.next<{ fencingToken: number }>('entered')).fencingToken);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    await endAll(children, observer);
  });

  test.each([
    ['at the head', 0],
    ['in the middle', 1],
  ])('one cut off from Redis %s does not hold up the others', async (_, place) => {
    await using proxy = await TcpProxy.start({ port: Number(new URL(redisUrl).port) });
    const prefix = uniqueName();
    const observer = manager(prefix);
    const [cutOff] = (await fleet(1, prefix, proxy.redisUrl)) as [Child];
    const others = await fleet(2, prefix);
    const line = others.toSpliced(place, 0, cutOff);
    const holder = await observer.acquire('r');
    await queue(line, observer);
    proxy.hold('up', 'down');
    const from = performance.now();
    await holder.release();
    for (const other of others) {
      await other.next('entered');
      await other.next('left');
    }
    expect(performance.now() - from).toBeLessThan(2 * (REFRESH_MS + CLAIM_MS) + 200);
    // What was under way arrives now: an old packet, and then its owner asks again.
    proxy.pass();
    await cutOff.next('entered');
    await cutOff.next('left');
    await endAll([cutOff, ...others], observer);
  });

  test('the crash of the holder is noticed by the one who waits when the ttl has passed, without polling', async () => {
    const prefix = uniqueName();
    const observer = manager(prefix);
    const [holder, waiter] = (await fleet(2, prefix)) as [Child, Child];
    holder.send('do', { op: 'hold', resource: 'r' });
    await holder.next('holds');
    await queue([waiter], observer);
    await holder.kill9();
    const left = (await observer.inspect('r'))?.remainingMs ?? 0;
    const from = performance.now();
    await waiter.next('entered');
    expect(performance.now() - from - left).toBeLessThan(150);
    await endAll([waiter], observer);
  });

  test('who may not listen waits a refresh at the most', async () => {
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    await raw.call('ACL', 'SETUSER', 'deaf', 'on', '>secret', '~*', 'resetchannels', '+@all');
    const deafUrl = server.url.replace('redis://', 'redis://deaf:secret@');
    const hearing = manager('leasehold', server.url);
    const deaf = manager('leasehold', deafUrl);
    const holder = await hearing.acquire('r');
    const waiting = deaf.acquire('r', { wait: '10s' });
    await expect.poll(async () => (await hearing.inspect('r'))?.waiting, { interval: 5 }).toBe(1);
    const from = performance.now();
    await holder.release();
    await (await waiting).release();
    expect(performance.now() - from).toBeLessThan(REFRESH_MS + 200);
    await Promise.all([hearing.close(), deaf.close()]);
  });

  test('a thousand on one resource ask once a refresh each, and are all served', { timeout: 60_000 }, async () => {
    const WAITERS = 1000;
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    const holding = new LeaseManager({ store: redisStore(server.url), ttl: '12s' });
    const waiting = new LeaseManager({ store: redisStore(server.url), ttl: '12s' });
    const calls = async (): Promise<number> =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await raw.info('commandstats'))?.[1] ?? '0');
    const holder = await holding.acquire('r');
    let inside = 0;
    let most = 0;
    let served = 0;
    const all = Array.from({ length: WAITERS }, () =>
      waiting.run('r', { wait: Infinity }, async () => {
        most = Math.max(most, ++inside);
        await Promise.resolve();
        inside--;
        served++;
      }),
    );
    await expect.poll(async () => (await holding.inspect('r'))?.waiting, { interval: 50 }).toBe(WAITERS);
    const before = await calls();
    await new Promise((resolve) => setTimeout(resolve, 4400));
    // One refresh of 4 s has passed for each; our own question beside it.
    expect((await calls()) - before).toBeLessThanOrEqual(2 * WAITERS + 10);
    const queued = await calls();
    await holder.release();
    await Promise.all(all);
    expect({ served, most }).toEqual({ served: WAITERS, most: 1 });
    expect(((await calls()) - queued) / WAITERS).toBeLessThan(4);
    await Promise.all([holding.close(), waiting.close()]);
  });
});

describe('after a restart without persistence', () => {
  test('what a live owner may still trust is waited out', async () => {
    await using server = await startRedis();
    const owner = new LeaseManager({ store: redisStore(server.url), ttl: 4000 });
    const other = new LeaseManager({ store: redisStore(server.url), ttl: 4000 });
    const lease = await owner.acquire('r');
    await other.inspect('r');
    await server.kill();
    await server.restart();
    await expect
      .poll(async () => (await other.tryAcquire('r').catch((error: unknown) => error)) as object, {
        interval: 20,
      })
      .toMatchObject({ acquired: false, reason: 'quarantine' });
    expect(lease.isHeld()).toBe(true);
    const from = performance.now();
    const taken = await other.acquire('r', { wait: '10s' });
    expect(performance.now() - from).toBeLessThan(4500);
    expect(lease.isHeld()).toBe(false);
    expect(taken.fencingToken).toBeGreaterThan(lease.fencingToken);
    await Promise.all([lease.release(), taken.release()]);
    await Promise.all([owner.close(), other.close()]);
  });
});

test('a process that asks to be told hears of a release that comes at once, the first time, too', async () => {
  const prefix = uniqueName();
  await using owner = manager(prefix);
  for (let round = 0; round < 5; round++) {
    await using asker = manager(prefix);
    const holder = await owner.acquire('r');
    const told = new Promise<string>((resolve) => asker.on('free', ({ resource }) => resolve(resource)));
    expect(await asker.tryAcquire('r', { park: true })).toMatchObject({ acquired: false });
    await holder.release();
    expect(await told).toBe('r');
  }
});
