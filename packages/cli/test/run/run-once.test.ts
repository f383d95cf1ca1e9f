import { LeaseManager, MemoryLeaseStore, RunCancelledError } from '@leasehold/core';
import { expect, test } from 'vitest';

import type { AnyJobHandler, JobContext } from '../../src/run/context.ts';
import { runOnce } from '../../src/run/run-once.ts';
import { Gate } from './support/gate.ts';
import { recordingLog } from './support/log.ts';
import { configOf, cronJob, intervalJob } from './support/settings.ts';

function once(
  name: string,
  handler: AnyJobHandler,
  { store = new MemoryLeaseStore(), signal = new AbortController().signal } = {},
): Promise<unknown> {
  const config = configOf([
    cronJob('report', { lease: { resource: 'reports' } }),
    cronJob('side-by-side', { overlap: 'allow', lease: { resource: undefined } }),
    intervalJob('by-schedule', { manual: 'reject' }),
  ]);
  return runOnce(config, name, { log: recordingLog().log, signal, store, handlers: { [name]: handler } });
}

test('a job is run once, now, under its lease and without a tick', async () => {
  const store = new MemoryLeaseStore();
  const value = await once('report', ({ run, lease, job }: JobContext) => [job, run, lease.resource, lease.isHeld()], {
    store,
  });
  const run = { tick: null, trigger: 'manual', attempt: 1 };
  expect(value).toEqual([{ name: 'report', id: null, data: undefined }, run, 'reports', true]);
  expect((await store.read('reports', { timeoutMs: 100 }).catch(() => null))?.state ?? 'free').toBe('free');
});

test('a job that runs elsewhere is not run: RESOURCE_BUSY', async () => {
  const store = new MemoryLeaseStore();
  await using manager = new LeaseManager({ store });
  await using _lease = await manager.acquire('reports');
  let ran = false;
  await expect(once('report', () => (ran = true), { store })).rejects.toMatchObject({ code: 'RESOURCE_BUSY' });
  expect(ran).toBe(false);
});

test('the error of the handler comes out, and a signal ends the run', async () => {
  await expect(once('report', () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  const stop = new AbortController();
  const began = new Gate();
  const run = once(
    'side-by-side',
    ({ signal }: JobContext) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
        began.open();
      }),
    { signal: stop.signal },
  );
  await began.opened;
  stop.abort(new RunCancelledError('side-by-side', 'shutdown'));
  await expect(run).rejects.toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
});

test('what cannot be run by name is refused with its place', async () => {
  await expect(once('by-schedule', () => {})).rejects.toThrow("jobs.by-schedule.manual: is 'reject'");
  await expect(once('other', () => {})).rejects.toThrow("jobs: has no job 'other'; there are report");
});

test('a signal that comes before the handler is called, calls none', async () => {
  const { log, lines } = recordingLog();
  const config = configOf([cronJob('report')]);
  const store = new MemoryLeaseStore();
  const stop = new AbortController();
  let began = 0;
  const run = runOnce(config, 'report', {
    log,
    signal: stop.signal,
    store,
    handlers: { report: () => void began++ },
  });
  // As a signal that is heard in the turn of the event loop in which the store has answered.
  await new Promise<void>((granted) => {
    const look = (): void => (lines.some(({ msg }) => msg === 'lease acquired') ? granted() : queueMicrotask(look));
    look();
  });
  stop.abort(new RunCancelledError('report', 'shutdown'));
  await expect(run).rejects.toMatchObject({ code: 'NOT_STARTED', cause: { code: 'RUN_CANCELLED' } });
  expect(began).toBe(0);
});
