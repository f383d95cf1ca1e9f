import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { parseLeaseOptions, type LeasedJob, type LeaseOptions } from '../src/options.ts';
import { Runs } from '../src/run.ts';
import type { Body, RunObserver } from '../src/runner.ts';
import type { FakeJob } from './fake-job.ts';

/** Runs of one worker on a store that can fail. */
export function setUp(options: Partial<LeaseOptions> = {}) {
  const store = new FaultyStore(new MemoryLeaseStore());
  const manager = new LeaseManager({ store, ttl: 1000, callTimeout: 50 });
  const closing = new AbortController();
  const heard: string[] = [];
  const busyForMs: number[] = [];
  const observer: RunObserver = {
    acquired: (job) => heard.push(`acquired ${job.lease.fencingToken > 0}`),
    busy: (_, holder, remainingMs) => {
      heard.push(`busy ${holder !== null}`);
      busyForMs.push(remainingMs);
    },
    lost: (_, error) => heard.push(`lost ${error.reason}`),
    abandoned: (_, reason) => heard.push(`abandoned ${reason.message}`),
    troubled: (error) => heard.push(`troubled ${error.code}`),
  };
  const settings = parseLeaseOptions({ resource: 'reports', ...options }, 'lease');
  const runs = new Runs(manager, settings, observer, closing.signal);
  const run = async <R>(job: FakeJob, body: Body<R>, signal?: AbortSignal): Promise<R> => {
    const done = runs.processing(job);
    try {
      return await runs.run(job, 'lock', signal, body);
    } finally {
      done();
    }
  };
  return { store, manager, closing, heard, busyForMs, runs, run };
}

export function leaseOf(job: FakeJob): LeasedJob['lease'] {
  return (job as unknown as LeasedJob).lease;
}

export function aborted(signal: AbortSignal): Promise<Error> {
  return new Promise((resolve) => {
    const done = (): void => resolve(signal.reason as Error);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done);
  });
}

/** Has the store say that the lease is lost. */
export function lose({ store }: ReturnType<typeof setUp>, signal: AbortSignal): Promise<Error> {
  store.set('extend', {
    reply: (verdicts) => verdicts.map(() => ({ verdict: 'lost', reason: 'superseded' }) as const),
  });
  return aborted(signal);
}
