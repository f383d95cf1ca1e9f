import { setMaxListeners } from 'node:events';
import { ConfigError } from '@leasehold/core';
import type { Job } from 'bullmq';
import { parseLeaseOptions, type LeasedJob, type LeasedOptions, type LeasedProcessor } from './options.ts';
import { checkFunction } from './processor.ts';
import { Runs } from './run.ts';
import type { RunObserver } from './runner.ts';

const nobody: RunObserver = { acquired() {}, busy() {}, lost() {}, abandoned() {}, troubled() {} };

/**
 * A processor for BullMQ's own Worker that runs `processor` under a lease, for code that cannot change its class. As with
 * `LeasedWorker`, but without what needs the worker: its events, being told of a failed lock renewal, and its `close`, with
 * its grace; jobs that wait there for a lease (`hold`) or a lease store are waited for. `maxStartedAttempts` must not be set
 * there with `whenBusy: 'delay'`.
 *
 * Throws `ConfigError` for options that cannot work.
 */
export function leased<D = any, R = any, N extends string = string>(
  processor: LeasedProcessor<D, R, N>,
  options: LeasedOptions<D, R, N>,
): (job: Job<D, R, N>, token?: string, signal?: AbortSignal) => Promise<R> {
  checkFunction(processor);
  for (const option of ['scope', 'grace'] as const) {
    if (option in Object(options)) throw new ConfigError(`options.${option}`, 'is an option of LeasedWorker alone');
  }
  const settings = parseLeaseOptions(options, 'options');
  const { manager } = settings;
  if (manager === undefined)
    throw new ConfigError('options.manager', 'is missing; a processor has no connection to make one from');
  manager.checkOptions(settings.acquire);
  // Of its own: what listens to it goes with the processor.
  const never = new AbortController().signal;
  // One for each job that waits or is being put back.
  setMaxListeners(0, never);
  const runs = new Runs(manager, settings, nobody, never);
  // Three parameters, or BullMQ makes no signal.
  return function (this: unknown, job, token, signal) {
    const lock = token ?? job.token ?? '';
    return runs.run(job, lock, signal, (ours) => processor.call(this, job as LeasedJob<D, R, N>, lock, ours));
  };
}
