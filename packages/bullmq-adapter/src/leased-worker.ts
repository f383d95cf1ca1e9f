import { Worker } from 'bullmq';
import type { LeasedProcessor, LeasedWorkerOptions } from './options.ts';
import { withLease } from './with-lease.ts';

type LeasedWorkerBase = new <D = any, R = any, N extends string = string>(
  name: string,
  processor: LeasedProcessor<D, R, N> | string | URL,
  options: LeasedWorkerOptions<D, R, N>,
  ...rest: any[]
) => Worker<D, R, N>;

// The mixin cannot know that Worker is generic.
const Base: LeasedWorkerBase = withLease(Worker) as LeasedWorkerBase;

/**
 * BullMQ's Worker with one more option: each job runs under a lease of its resource, so that there is one job at a time
 * for each resource, over all workers.
 *
 * ```ts
 * new LeasedWorker('payments', async (job, token, signal) => ledger.write(job.lease, (tx) => …), {
 *   connection,
 *   lease: { resource: (job) => `customer:${job.data.customerId}`, fences: [ledger] },
 * });
 * ```
 *
 * A job whose resource is busy goes back to its queue (as `delayed`) without using an attempt, and comes again when the
 * resource is free; a job whose lease was lost goes back as well, whatever its processor returned (`whenBusy` and `whenLost`
 * have other choices). There is no order among the jobs of a resource. A processor may be a file: see `SandboxedLeasedJob`.
 * Events beside BullMQ's: `leaseAcquired`, `leaseBusy`, `leaseLost`, `leaseAbandoned`; trouble with the lease store comes as
 * `error`.
 *
 * The constructor throws `ConfigError` for options that cannot work.
 */
export class LeasedWorker<D = any, R = any, N extends string = string> extends Base<D, R, N> {}
