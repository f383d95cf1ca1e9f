import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseManager, type OwnerVitals } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { expect, inject, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { uniqueName } from '../support/redis-client.ts';

/** ttl 2 s: a fortieth of it, by which a pause is measured too short; and what timers are late anyway. */
const SHORT_MS = 50 + 20;

test('a process that was stopped, and one whose event loop was blocked, say so themselves and in the record of their lease', async () => {
  const [url, prefix, resource] = [inject('redisUrl'), uniqueName(), uniqueName()];
  await using manager = new LeaseManager({ store: redisStore(url, { prefix }) });
  await using child = startChild(new URL('./fixtures/measured.ts', import.meta.url), { args: [url, prefix, resource] });
  const { leaseId } = await child.next<{ leaseId: string }>('held');

  /** After each extension, until the record says so; what the process itself said then. */
  async function measured(isSo: (vitals: OwnerVitals) => boolean): Promise<{ own: OwnerVitals; record: OwnerVitals }> {
    for (;;) {
      const { vitals: own } = await child.next<{ vitals: OwnerVitals }>('extended');
      const info = await manager.inspect(resource);
      expect(info).toMatchObject({ state: 'held', leaseId, identity: { pid: child.pid } });
      const record = info?.identity?.vitals;
      if (record !== undefined && isSo(record)) return { own, record };
    }
  }

  const before = await measured(({ serverRunId }) => serverRunId !== '');
  expect(before.own.worstPauseMs).toBeLessThan(500);

  await child.stop();
  await sleep(700);
  child.cont();
  const stopped = await measured(({ worstPauseMs }) => worstPauseMs >= 700 - SHORT_MS);
  expect(stopped.own.worstPauseMs).toBeGreaterThanOrEqual(700 - SHORT_MS);
  expect(stopped.record).toMatchObject({ worstClockStepMs: 0, worstSuspendMs: 0 });

  child.send('block', { forMs: 1100 });
  const blocked = await measured(({ worstPauseMs }) => worstPauseMs >= 1100 - SHORT_MS);
  expect(blocked.own.worstPauseMs).toBeGreaterThanOrEqual(1100 - SHORT_MS);
  expect(blocked.record).toMatchObject({
    serverRunId: expect.stringMatching(/^[0-9a-f]{40}$/),
    clockOffsetMs: expect.any(Number),
    failedExtensions: expect.any(Number),
  });
  // One machine, one clock.
  expect(Math.abs(blocked.record.clockOffsetMs ?? Infinity)).toBeLessThan(100);
  child.send('end');
  expect(await child.exit).toMatchObject({ code: 0 });
});
