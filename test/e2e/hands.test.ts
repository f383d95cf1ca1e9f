import { LeaseManager, type Ticket } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
const member = new URL('./fixtures/member.ts', import.meta.url);
const TTL_MS = 1500;
const REFRESH_MS = 500;

interface Fleet extends AsyncDisposable {
  readonly children: Child[];
  readonly operator: LeaseManager;
  readonly prefix: string;
}

async function fleet(count: number): Promise<Fleet> {
  const prefix = uniqueName();
  const operator = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl: TTL_MS });
  const children = Array.from({ length: count }, () =>
    startChild(member, { env: { REDIS_URL: redisUrl, PREFIX: prefix, TTL_MS: String(TTL_MS) } }),
  );
  await Promise.all(children.map((child) => child.next('ready')));
  return {
    children,
    operator,
    prefix,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(children.map((child) => child.kill9()));
      await operator.close({ grace: 0, abandonAfter: 0 });
    },
  };
}

async function holds(child: Child, fenced = false): Promise<{ leaseId: string; fencingToken: number }> {
  child.send('do', { op: 'hold', resource: 'r', fenced });
  return child.next('holds');
}

describe('revoke, of an owner in another process that', () => {
  test('is busy: cancelled within milliseconds, out when it releases, and nobody in before', async () => {
    await using all = await fleet(1);
    const [owner] = all.children as [Child];
    await holds(owner);
    const from = Date.now();
    expect(await all.operator.revoke('r', { reason: 'drill' })).toMatchObject({ outcome: 'revoked' });
    const { reason, at } = await owner.next<{ reason: string; at: number }>('aborted');
    expect(reason).toBe('revoked');
    expect(at - from).toBeLessThan(REFRESH_MS / 2);
    expect(await all.operator.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    owner.send('do', { op: 'release', resource: 'r' });
    expect(await owner.next('released')).toMatchObject({ result: 'released' });
    expect(await all.operator.tryAcquire('r')).toMatchObject({ acquired: true });
  });

  test.each(['blocks its loop', 'is stopped'])(
    '%s: out when its ttl has passed, and it knows when it wakes up',
    async (how) => {
      await using all = await fleet(1);
      const [owner] = all.children as [Child];
      await holds(owner);
      if (how === 'is stopped') await owner.stop();
      else {
        owner.send('do', { op: 'block', resource: 'r' });
        await owner.next('blocking');
      }
      const { remainingMs, outcome } = await all.operator.revoke('r');
      expect(outcome).toBe('revoked');
      const from = performance.now();
      const lease = await all.operator.acquire('r', { wait: '10s' });
      expect(performance.now() - from).toBeLessThan(remainingMs + 300);
      owner.cont();
      expect(await owner.next('aborted')).toMatchObject({ code: 'LEASE_LOST' });
      expect(lease.isHeld()).toBe(true);
    },
  );

  test('has released, has been superseded, or has it again: named, and nothing of another is ended', async () => {
    await using all = await fleet(1);
    const [owner] = all.children as [Child];
    const first = await holds(owner);
    owner.send('do', { op: 'release', resource: 'r' });
    await owner.next('released');
    expect(await all.operator.revoke('r')).toMatchObject({ outcome: 'free' });
    const again = await holds(owner);
    expect(await all.operator.revoke('r', { leaseId: first.leaseId })).toMatchObject({ outcome: 'superseded' });
    const extensions = async (): Promise<number> => (await all.operator.inspect('r'))?.extensions ?? 0;
    const before = await extensions();
    await expect.poll(extensions, { interval: 20, timeout: 3000 }).toBeGreaterThan(before);
    expect(await all.operator.inspect('r')).toMatchObject({ leaseId: again.leaseId, revoked: false });
    await owner.kill9();
    await expect.poll(async () => (await all.operator.inspect('r'))?.state, { timeout: 5000 }).toBe('expired');
    expect(await all.operator.revoke('r')).toMatchObject({ outcome: 'expired' });
  });
});

describe('a hand-over between processes', () => {
  test('has one adopter of two at once, and the old holder is refused at the fence', async () => {
    await using all = await fleet(3);
    const [giver, one, two] = all.children as [Child, Child, Child];
    const { fencingToken } = await holds(giver, true);
    giver.send('do', { op: 'write', resource: 'r' });
    expect(await giver.next('wrote')).toMatchObject({ code: null });
    giver.send('do', { op: 'handOver', resource: 'r' });
    const { ticket } = await giver.next<{ ticket: Ticket }>('ticket');
    for (const child of [one, two]) child.send('do', { op: 'adopt', resource: 'r', ticket, fenced: true });
    const results = await Promise.all(
      [one, two].map((child) => child.next<{ code: string | null; reason?: string; fencingToken?: number }>('adopted')),
    );
    const won = results.filter(({ code }) => code === null);
    expect(won).toHaveLength(1);
    expect(won[0]?.fencingToken).toBeGreaterThan(fencingToken);
    expect(results.find(({ code }) => code !== null)).toMatchObject({ code: 'LEASE_LOST', reason: 'superseded' });
    giver.send('do', { op: 'write', resource: 'r' });
    expect(await giver.next('wrote')).toMatchObject({ code: 'STALE_TOKEN' });
    const adopter = results[0]?.code === null ? one : two;
    adopter.send('do', { op: 'write', resource: 'r' });
    expect(await adopter.next('wrote')).toMatchObject({ code: null });
    await using raw = await connectRedis(redisUrl);
    expect(await raw.get(`{${all.prefix}/r}:n`)).toBe('2');
    // It is kept by its new holder.
    const before = (await all.operator.inspect('r'))?.extensions ?? 0;
    await expect
      .poll(async () => (await all.operator.inspect('r'))?.extensions, { timeout: 3000 })
      .toBeGreaterThan(before);
  });

  test('is over when the ttl has passed', async () => {
    await using all = await fleet(2);
    const [giver, taker] = all.children as [Child, Child];
    await holds(giver);
    giver.send('do', { op: 'handOver', resource: 'r' });
    const { ticket } = await giver.next<{ ticket: Ticket }>('ticket');
    await expect.poll(async () => (await all.operator.inspect('r'))?.state, { timeout: 5000 }).toBe('expired');
    taker.send('do', { op: 'adopt', resource: 'r', ticket });
    expect(await taker.next('adopted')).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' });
  });
});
