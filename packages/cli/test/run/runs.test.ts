import { MemoryLeaseStore, NotStartedError, type Lease } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { expect, test, vi } from 'vitest';

import type { AnyJobHandler, JobContext } from '../../src/run/context.ts';
import { Metrics } from '../../src/run/metrics.ts';
import { runConfig } from '../../src/run/run-config.ts';
import { Runs } from '../../src/run/runs.ts';
import { Gate } from './support/gate.ts';
import { recordingLog } from './support/log.ts';
import { configOf, intervalJob } from './support/settings.ts';

const job = { name: 'job', id: '7', data: {} };
const run = { tick: null, trigger: 'queue', attempt: 1 } as const;

interface Case {
  readonly when: string;
  readonly handler: AnyJobHandler;
  readonly isHeld: boolean;
  readonly aborted: boolean;
  readonly outcome: string;
  readonly level: number;
}

const returns = async (): Promise<string> => 'value';
const throws = (): Promise<never> => Promise.reject(new Error('broken'));

test.each<Case>([
  { when: 'it returns', handler: returns, isHeld: true, aborted: false, outcome: 'done', level: 30 },
  { when: 'it throws', handler: throws, isHeld: true, aborted: false, outcome: 'failed', level: 50 },
  {
    when: 'it returns although it was aborted',
    handler: returns,
    isHeld: true,
    aborted: true,
    outcome: 'done',
    level: 30,
  },
  { when: 'it gives up', handler: throws, isHeld: true, aborted: true, outcome: 'cancelled', level: 40 },
  { when: 'it returns without its lease', handler: returns, isHeld: false, aborted: true, outcome: 'lost', level: 40 },
  { when: 'it throws without its lease', handler: throws, isHeld: false, aborted: true, outcome: 'lost', level: 40 },
])('$outcome when $when', async ({ handler, isHeld, aborted, outcome, level }) => {
  const { log, lines } = recordingLog();
  const metrics = new Metrics();
  const runs = new Runs(log, metrics);
  const stop = new AbortController();
  const lease = { resource: 'r', fencingToken: 3, isHeld: () => isHeld, assertHeld() {} } as unknown as Lease;
  const counted: AnyJobHandler = (context) => {
    expect(runs.active).toBe(1);
    if (aborted) stop.abort();
    return handler(context);
  };
  const performed = runs.perform({
    handler: counted,
    job,
    run,
    lease,
    signal: stop.signal,
    fences: {},
    patienceMs: 1000,
  });
  const error = await performed.then(
    () => undefined,
    (its: unknown) => its,
  );
  expect(runs.active).toBe(0);
  expect(runs.hasTold(error)).toBe(handler === throws);
  const last = lines.at(-1);
  expect(last).toMatchObject({ level, outcome, job: 'job', jobId: '7', resource: 'r', token: 3 });
  expect(await metrics.registry.metrics()).toContain(`leasehold_runs_total{job="job",outcome="${outcome}"} 1`);
});

test('a run that was asked for does not begin once the shutdown has', async () => {
  const { log, lines } = recordingLog();
  const store = new MemoryLeaseStore();
  let began = 0;
  const handlers = { poll: () => void began++ };
  const running = await runConfig(configOf([intervalJob('poll')]), { handlers, log, store });
  // As a signal that is heard in the turn of the event loop in which the store has answered.
  await new Promise<void>((granted) => {
    const look = (): void => (lines.some(({ msg }) => msg === 'lease acquired') ? granted() : queueMicrotask(look));
    look();
  });
  expect(await running.close()).toEqual({ unsettled: 0 });
  expect(began).toBe(0);
  expect(lines.map(({ msg }) => msg)).not.toContain('run begins');
  expect(lines.filter(({ level }) => level >= 40)).toEqual([]);
});

test('a run whose lease was lost before its handler was called does not begin', async () => {
  const { log, lines } = recordingLog();
  const runs = new Runs(log, new Metrics());
  const lost = new Error('lost');
  const assertHeld = (): never => {
    throw lost;
  };
  const lease = { resource: 'r', fencingToken: 3, isHeld: () => false, assertHeld } as unknown as Lease;
  const handler = vi.fn<AnyJobHandler>();
  const signal = AbortSignal.abort();
  await expect(runs.perform({ handler, job, run, lease, signal, fences: {}, patienceMs: 1000 })).rejects.toBe(lost);
  expect(handler).not.toHaveBeenCalled();
  expect(lines).toEqual([]);
});

test('a run that was told to end before its handler was called does not begin', async () => {
  const { log, lines } = recordingLog();
  const runs = new Runs(log, new Metrics());
  const lease = { resource: 'r', fencingToken: 3, isHeld: () => true, assertHeld() {} } as unknown as Lease;
  const handler = vi.fn<AnyJobHandler>();
  const stop = new AbortController();
  const performed = runs.perform({ handler, job, run, lease, signal: stop.signal, fences: {}, patienceMs: 1000 });
  stop.abort(new Error('revoked'));
  await expect(performed).rejects.toMatchObject({ code: 'NOT_STARTED', cause: { message: 'revoked' } });
  expect(handler).not.toHaveBeenCalled();
  expect(lines).toEqual([]);
});

test('a handler that goes on for longer than its patience after it was told to end is told of once, one that ends in time is not', async () => {
  const { log, lines } = recordingLog();
  const abandoned = new Gate();
  const onAbandoned = vi.fn<() => void>(() => abandoned.open());
  const runs = new Runs(log, new Metrics(), onAbandoned);
  const lease = { resource: 'r', fencingToken: 3, isHeld: () => true, assertHeld() {} } as unknown as Lease;
  const perform = (handler: AnyJobHandler, stop: AbortController): Promise<unknown> =>
    runs.perform({ handler, job, run, lease, signal: stop.signal, fences: {}, patienceMs: 50 });
  const obeys = new AbortController();
  const ended = perform(() => obeys.abort(), obeys);
  await ended;
  const ignores = new AbortController();
  const end = new Gate();
  const goesOn = perform(() => (ignores.abort(), end.opened), ignores);
  await abandoned.opened;
  end.open();
  await goesOn;
  expect(onAbandoned).toHaveBeenCalledTimes(1);
  expect(lines.filter(({ msg }) => msg === 'handler ignores its signal and is left behind')).toMatchObject([
    { level: 50, job: 'job', patienceMs: 50 },
  ]);
});

test('a lease that is lost in mid-run aborts the run, and is told and counted', async () => {
  const { log, lines } = recordingLog();
  const store = new FaultyStore(new MemoryLeaseStore());
  store.set('extend', { reply: (verdicts) => verdicts.map(() => ({ verdict: 'lost', reason: 'superseded' })) });
  const aborted = new Gate();
  const handler = ({ signal }: JobContext): Promise<void> => {
    signal.addEventListener('abort', () => aborted.open());
    return aborted.opened;
  };
  await using running = await runConfig(configOf([intervalJob('poll', { lease: { ttlMs: 300 } })]), {
    handlers: { poll: handler },
    log,
    store,
  });
  await aborted.opened;
  await vi.waitFor(() =>
    expect(lines.map(({ msg }) => msg)).toContain('run ended without its lease; what it returned does not count'),
  );
  const lost = lines.find(({ msg }) => msg === 'lease lost');
  expect(lost).toMatchObject({ level: 40, resource: 'poll', reason: 'superseded', err: { code: 'LEASE_LOST' } });
  const body = await (await fetch(`http://127.0.0.1:${running.port}/metrics`)).text();
  expect(body).toContain('leasehold_lost_total{class="poll",reason="superseded"} 1');
  expect(body).toContain('leasehold_runs_total{job="poll",outcome="lost"} 1');
  expect(body).not.toMatch(/^leasehold_held\{/m);
  await running.close();
});

test.each([
  { when: 'told to end before its thread was there', aborted: true, isTold: false },
  { when: 'of itself', aborted: false, isTold: true },
])('a run that was not begun, $when, is one that who took it puts back: $aborted', async ({ aborted, isTold }) => {
  const runs = new Runs(recordingLog().log, new Metrics());
  const lease = { resource: 'r', fencingToken: 3, isHeld: () => true, assertHeld() {} } as unknown as Lease;
  const stop = new AbortController();
  const error = new NotStartedError('r', 'it was told to end first');
  const handler = (): Promise<never> => {
    if (aborted) stop.abort();
    return Promise.reject(error);
  };
  const { signal } = stop;
  const running = runs.perform({ handler, job, run, lease, signal, fences: {}, patienceMs: 1000 });
  await expect(running).rejects.toBe(error);
  expect(runs.hasTold(error)).toBe(isTold);
});
