import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
const worker = new URL('./fixtures/shutdown.ts', import.meta.url);

describe('a process that is told to end', () => {
  test.each([
    { body: 'quick', says: { value: 'finished', aborted: false, unsettled: 0 } },
    { body: 'obedient', says: { value: 'wound up', aborted: true, unsettled: 0 } },
  ])('with a $body body: it counts, and the next owner enters at once', async ({ body, says }) => {
    const prefix = uniqueName();
    const next = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl: 30_000 });
    await using child = startChild(worker, { env: { REDIS_URL: redisUrl, PREFIX: prefix, BODY: body } });
    await child.next('running');
    expect(await next.tryAcquire('r')).toMatchObject({ acquired: false });
    child.kill('SIGTERM');
    expect(await child.next('closed')).toMatchObject(says);
    const got = await next.tryAcquire('r');
    expect(got.acquired).toBe(true);
    expect(await child.exit).toEqual({ code: 0, signal: null });
    if (got.acquired) await got.lease.release();
    await next.close();
  });

  test('with a body that ignores its signal: reported, and its lease is left to run out', async () => {
    const prefix = uniqueName();
    const next = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl: 2000 });
    await using child = startChild(worker, { env: { REDIS_URL: redisUrl, PREFIX: prefix, BODY: 'stuck' } });
    await child.next('running');
    child.kill('SIGTERM');
    expect(await child.next('closed')).toMatchObject({ unsettled: 1 });
    expect(await next.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    expect(await child.exit).toEqual({ code: 3, signal: null });
    await expect.poll(async () => (await next.inspect('r'))?.state, { timeout: 5000 }).toBe('expired');
    expect(await next.tryAcquire('r')).toMatchObject({ acquired: true });
    await next.close({ grace: 0, abandonAfter: 0 });
  });

  test('with SIGKILL: the next owner enters when the ttl has passed, with a larger token', async () => {
    const prefix = uniqueName();
    const next = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl: 2000 });
    await using child = startChild(worker, { env: { REDIS_URL: redisUrl, PREFIX: prefix, BODY: 'stuck' } });
    const { fencingToken } = await child.next<{ fencingToken: number }>('running');
    await child.kill9();
    const from = performance.now();
    let token = 0;
    await expect
      .poll(
        async () => {
          const got = await next.tryAcquire('r');
          if (got.acquired) token = got.lease.fencingToken;
          return got.acquired;
        },
        { timeout: 5000, interval: 20 },
      )
      .toBe(true);
    expect(performance.now() - from).toBeLessThan(2100);
    expect(token).toBeGreaterThan(fencingToken);
    await next.close({ grace: 0, abandonAfter: 0 });
  });
});
