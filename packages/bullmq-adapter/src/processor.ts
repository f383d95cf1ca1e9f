import { ConfigError } from '@leasehold/core';
import type { LeasedProcessor } from './options.ts';

/** Throws `ConfigError` unless BullMQ can run it. */
export function checkProcessor(processor: unknown): asserts processor is LeasedProcessor | string | URL {
  if (typeof processor !== 'string' && !(processor instanceof URL)) checkFunction(processor);
}

/** Throws `ConfigError` unless it is a function that does its work when it is called. */
export function checkFunction(processor: unknown): asserts processor is LeasedProcessor {
  if (typeof processor !== 'function') {
    throw new ConfigError(
      'processor',
      'is no function, nor a file that has one; jobs that are fetched by hand do not run under a lease',
    );
  }
  const kind = Object.prototype.toString.call(processor);
  if (kind !== '[object AsyncGeneratorFunction]' && kind !== '[object GeneratorFunction]') return;
  throw new ConfigError(
    'processor',
    'is a generator function: BullMQ would call it, get a generator, and complete the job without running a line of it',
  );
}

/**
 * BullMQ makes a signal for each job of a function that names its third parameter. Ours comes from its lease, and a job is
 * cancelled through its run, so two parameters are named. `this` stays what it is there: the worker.
 */
export function withoutSignal(processor: LeasedProcessor | string | URL): LeasedProcessor | string | URL {
  if (typeof processor !== 'function') return processor;
  return function (this: unknown, job, token, ...[signal]: [AbortSignal]) {
    return processor.call(this, job, token, signal);
  };
}
