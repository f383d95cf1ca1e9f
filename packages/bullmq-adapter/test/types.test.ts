import type { Grant, Lease, LeaseLostError } from '@leasehold/core';
import { Worker, type Job, type Processor, type SandboxedJob } from 'bullmq';
import { describe, expectTypeOf, it } from 'vitest';
import {
  leased,
  LeasedWorker,
  type LeasedJob,
  type LeasedOptions,
  type LeasedProcessor,
  type SandboxedLeasedJob,
  type SkippedResult,
  type WhenBusy,
} from '../src/index.ts';

interface Charge {
  readonly customerId: string;
}

// Compiled, never called: nothing here connects.
describe('types', () => {
  it('keep data, result and name', () => {
    const make = () =>
      new LeasedWorker<Charge, number, 'charge'>(
        'payments',
        async (job, token, signal) => {
          expectTypeOf(job.data).toEqualTypeOf<Charge>();
          expectTypeOf(job.name).toEqualTypeOf<'charge'>();
          expectTypeOf(job.lease).toEqualTypeOf<Lease>();
          expectTypeOf(token).toEqualTypeOf<string>();
          expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
          return 1;
        },
        { connection: {}, lease: { resource: (job) => `customer:${job.data.customerId}`, ttl: '30s' } },
      );
    expectTypeOf<ReturnType<typeof make>>().toExtend<Worker<Charge, number, 'charge'>>();
  });

  it('let a processor of BullMQ stay as it is', () => {
    expectTypeOf<(job: Job<Charge>) => Promise<void>>().toExtend<LeasedProcessor<Charge, void>>();
    expectTypeOf<Processor<Charge, number>>().toExtend<LeasedProcessor<Charge, number>>();
    expectTypeOf<() => number>().toExtend<LeasedProcessor<Charge, number>>();
  });

  it('make a processor for BullMQ', () => {
    const make = (options: LeasedOptions<Charge, number>) =>
      leased<Charge, number>((job) => job.data.customerId.length, options);
    expectTypeOf<ReturnType<typeof make>>().toExtend<Processor<Charge, number>>();
  });

  it('know the events', () => {
    const listen = (worker: LeasedWorker<Charge>) =>
      worker
        .on('leaseAcquired', (job) => expectTypeOf(job).toEqualTypeOf<LeasedJob>())
        .on('leaseBusy', (_, holder, remainingMs) => {
          expectTypeOf(holder?.owner).toEqualTypeOf<string | undefined>();
          expectTypeOf(remainingMs).toEqualTypeOf<number>();
        })
        .on('leaseLost', (_, error) => expectTypeOf(error).toEqualTypeOf<LeaseLostError>())
        .on('leaseAbandoned', (job, reason) => {
          expectTypeOf(job).toEqualTypeOf<LeasedJob>();
          expectTypeOf(reason).toEqualTypeOf<Error>();
        })
        .on('completed', (job) => expectTypeOf(job.data).toEqualTypeOf<Charge>());
    expectTypeOf(listen).returns.toEqualTypeOf<LeasedWorker<Charge>>();
  });

  it('let a job be skipped only where the result has room for it', () => {
    const lease = { resource: 'reports', whenBusy: 'skip' } as const;
    const withRoom = () =>
      new LeasedWorker<Charge, number | SkippedResult>('payments', () => 1, { connection: {}, lease });
    expectTypeOf<ReturnType<typeof withRoom>>().toExtend<Worker<Charge, number | SkippedResult>>();
    const anything = () => new LeasedWorker<Charge>('payments', () => 1, { connection: {}, lease });
    expectTypeOf(anything).toBeFunction();
    // @ts-expect-error -- its result is a number
    const without = () => new LeasedWorker<Charge, number>('payments', () => 1, { connection: {}, lease });
    expectTypeOf(without).toBeFunction();
    expectTypeOf<WhenBusy<number>>().toEqualTypeOf<'delay' | 'hold' | 'fail'>();
  });

  it('know a processor that is a file', () => {
    const make = () =>
      new LeasedWorker<Charge, number>('payments', new URL('file:///pay.js'), {
        connection: {},
        lease: { resource: (job) => `customer:${job.data.customerId}` },
      });
    expectTypeOf(make).toBeFunction();
    const inFile = (job: SandboxedLeasedJob<Charge>): string => job.lease.grant.resource + job.data.customerId;
    expectTypeOf(inFile).parameter(0).toExtend<SandboxedJob<Charge>>();
    expectTypeOf<SandboxedLeasedJob['lease']>().toExtend<Grant>();
  });

  it('do not let a plain Worker take a lease that it would ignore', () => {
    // @ts-expect-error -- `lease` is no option of BullMQ
    const make = () => new Worker('payments', async () => {}, { connection: {}, lease: { resource: 'reports' } });
    expectTypeOf(make).toBeFunction();
  });

  it('know the grammar of durations and the names of options', () => {
    // @ts-expect-error -- no such unit
    const wrongTtl = () => new LeasedWorker('q', () => {}, { connection: {}, lease: { resource: 'r', ttl: '30sec' } });
    // @ts-expect-error -- no such option
    const wrongName = () => new LeasedWorker('q', () => {}, { connection: {}, lease: { resource: 'r', x: 1 } });
    expectTypeOf(wrongTtl).toBeFunction();
    expectTypeOf(wrongName).toBeFunction();
  });
});
