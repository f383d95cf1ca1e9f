import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseManager, type OwnerVitals } from '@leasehold/core';
import { diagnose } from '@leasehold/core/diagnosis';
import { redisStore } from '@leasehold/core/redis';
import { expect, inject, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { uniqueName } from '../support/redis-client.ts';

/** ttl 3 s: a fortieth of it, by which a pause is measured too short; and what timers are late anyway. */
const BEAT_MS = 75;
const SHORT_MS = BEAT_MS + 20;

test('a process that was stopped, one whose event loop was blocked and one whose store is slow say so in the record of their lease, with its extensions, and diagnosis shows it', async () => {
  const [url, prefix, resource] = [inject('redisUrl'), uniqueName(), uniqueName()];
  await using manager = new LeaseManager({ store: redisStore(url, { prefix }) });
  await using proxy = await TcpProxy.start({ port: Number(new URL(url).port) });
  await using child = startChild(new URL('./fixtures/measured.ts', import.meta.url), {
    args: [proxy.redisUrl, prefix, resource],
  });
  const { leaseId } = await child.next<{ leaseId: string }>('held');

  /** Until the process has measured so much and its record says so, but for less than what is worth a write. */
  async function told(figure: 'worstPauseMs' | 'worstRoundTripMs', leastMs: number) {
    for (let extensions = 1; ; extensions++) {
      const { vitals: own } = await child.next<{ vitals: OwnerVitals }>('extended');
      const info = await manager.inspect(resource);
      expect(info).toMatchObject({ state: 'held', leaseId, identity: { pid: child.pid } });
      const record = info?.identity?.vitals;
      if (record !== undefined && own[figure] >= leastMs && record[figure] >= own[figure] / 1.25 - BEAT_MS) {
        return { own, record, extensions };
      }
    }
  }

  const before = await told('worstPauseMs', 0);
  expect(before.own.worstPauseMs).toBeLessThan(600);

  // One request each, those that write what was measured among them.
  const { requests } = proxy.counters;
  proxy.delay({ down: 250 });
  const delayed = await told('worstRoundTripMs', 250);
  proxy.pass();
  if (delayed.own.failedExtensions === 0) {
    expect(proxy.counters.requests - requests).toBeLessThanOrEqual(delayed.extensions + 1);
  }
  expect(delayed.record.worstRoundTripMs).toBeLessThan(1000);
  expect(delayed.own.worstPauseMs).toBeLessThan(600);

  await child.stop();
  await sleep(700);
  child.cont();
  const stopped = await told('worstPauseMs', 700 - SHORT_MS);
  // One may have been under way when the process was stopped.
  expect(stopped.extensions).toBeLessThanOrEqual(2);
  expect(stopped.record).toMatchObject({ worstClockStepMs: 0, worstSuspendMs: 0 });

  child.send('block', { forMs: 1300 });
  const blocked = await told('worstPauseMs', 1300 - SHORT_MS);
  expect(blocked.record).toMatchObject({
    serverRunId: expect.stringMatching(/^[0-9a-f]{40}$/),
    clockOffsetMs: expect.any(Number),
    failedExtensions: expect.any(Number),
  });
  // One machine, one clock.
  expect(Math.abs(blocked.record.clockOffsetMs ?? Infinity)).toBeLessThan(260);

  const { evidence, lease } = await diagnose(manager, resource);
  const shown = new Map(evidence.map(({ id, value, caveat }) => [id, `${value}; ${caveat}`]));
  const vitals = lease?.identity?.vitals;
  expect(shown.get('E13')).toContain(`worst pause ${Math.round(vitals?.worstPauseMs ?? 0)} ms`);
  expect(shown.get('E13')).toContain(`round trip ${Math.round(vitals?.worstRoundTripMs ?? 0)} ms`);
  expect(shown.get('E13')).toContain(`as of ${vitals?.measuredAt}`);
  expect(shown.get('E12')).toMatch(/the owner's host was [+−]0\.\d{3} s off the store/);

  child.send('end');
  expect(await child.exit).toMatchObject({ code: 0 });
});
