import {
  ConfigError,
  parseDuration,
  parseOptions,
  type AcquireOptions,
  type Duration,
  type Fence,
  type Lease,
  type LeaseManager,
} from '@leasehold/core';
import type { Job, WorkerOptions } from 'bullmq';
import { z } from 'zod';
import { checkResource } from './resource.ts';

/** A job in the hands of its processor. `lease` is not enumerable; it is missing where `resource` gave null. */
export type LeasedJob<D = any, R = any, N extends string = string> = Job<D, R, N> & { readonly lease: Lease };

/**
 * BullMQ's processor with a leased job and three arguments that are always there. `signal` aborts once, always with an
 * `Error`: with `LeaseLostError` when the lease is lost; with `RunCancelledError`, the lease still held, when the worker or
 * the manager closes (`shutdown`) or `maxHold` has passed, and with reason `caller` when the job is cancelled
 * (`worker.cancelJob`), when BullMQ could not renew its own lock of the job, and when it started the job again because of
 * that (`cause` says which). What it throws need not be an `Error`; what is none becomes one that says what it was.
 */
export type LeasedProcessor<D = any, R = any, N extends string = string> = (
  job: LeasedJob<D, R, N>,
  token: string,
  signal: AbortSignal,
) => Promise<R> | R;

/**
 * What one job at a time is to act on, or how a job names it; null runs that job without a lease. A name that comes out
 * empty, undefined or with the word "undefined", "null" or "[object Object]" in it would be one lease for everybody: such
 * a job fails without being tried again (`UnrecoverableError`, its message begins with `CONFIG`).
 */
export type ResourceOption<D = any, R = any, N extends string = string> =
  | string
  | ((job: Job<D, R, N>) => string | null);

/** The result of a job that was skipped because its resource was busy (`whenBusy: 'skip'`). */
export interface SkippedResult {
  readonly skipped: 'busy';
  readonly resource: string;
}

/** `skip` can be chosen by workers whose result type has room for `SkippedResult`. */
export type WhenBusy<R = any> = 'delay' | 'hold' | 'fail' | (SkippedResult extends R ? 'skip' : never);

export type WhenLost = 'requeue' | 'retry' | 'fail';

/** Under which lease jobs run: `ttl`, `fences`, `activate` and `maxHold` are those of `LeaseManager.run`. */
export interface LeaseOptions<D = any, R = any, N extends string = string> extends Pick<
  AcquireOptions,
  'ttl' | 'fences' | 'activate' | 'maxHold'
> {
  readonly resource: ResourceOption<D, R, N>;
  /**
   * `job`: a lease for each job, of the resource that it names. `worker`: one lease for all jobs of the worker, of the one
   * `resource` (a string); of several workers one takes jobs. @default 'job'
   */
  readonly scope?: 'job' | 'worker';
  /** @default one manager for each `connection`, on connections of its own, closed with the last worker that uses it */
  readonly manager?: LeaseManager;
  /**
   * What becomes of a job whose resource is busy. @default 'delay'
   *
   * - `delay`: it goes back to its queue, as `delayed`, without using an attempt, and comes again when the resource is free.
   *   Uses `attemptsStarted` and, in a queue with a limiter, its starts; there is no order among the jobs of a resource.
   * - `hold`: it keeps its slot and waits in line until it has the resource, is cancelled (then it fails, as one that has
   *   begun) or the worker closes.
   * - `skip`: it is completed, its result a `SkippedResult`; the result type of the worker must include it.
   * - `fail`: it fails with `ResourceBusyError`, which uses an attempt and the job's backoff.
   */
  readonly whenBusy?: WhenBusy<R>;
  /**
   * What becomes of a job whose lease was lost; what its processor returned or threw is never its result. @default 'requeue'
   *
   * - `requeue`: it runs again without using an attempt. The fourth loss of a job in this process, and those after, are
   *   `retry`, until a run of it keeps its lease.
   * - `retry`: it fails with `LeaseLostError`, which uses an attempt and the job's backoff.
   * - `fail`: it fails for good.
   */
  readonly whenLost?: WhenLost;
  /**
   * How long a processor may go on after its signal was aborted. Then its slot is given back and its job is put back (or
   * as `whenLost` says), with the event `leaseAbandoned`. Its lease is not released but left to run out, as it still runs.
   * @default Infinity
   */
  readonly abandonAfter?: Duration;
  /** How long `close()` lets processors go on undisturbed before it aborts them; `pause()` aborts nothing. @default '10s' */
  readonly grace?: Duration;
}

/** For `leased()`, which has no connection to make a manager from, and no worker to close. */
export interface LeasedOptions<D = any, R = any, N extends string = string> extends Omit<
  LeaseOptions<D, R, N>,
  'scope' | 'grace'
> {
  readonly manager: LeaseManager;
}

/** BullMQ's options and one more. */
export type LeasedWorkerOptions<D = any, R = any, N extends string = string> = WorkerOptions & {
  readonly lease: LeaseOptions<D, R, N>;
};

/** Lease options after checking: numbers, defaults filled in. */
export interface LeaseSettings {
  readonly scope: 'job' | 'worker';
  /** A string for the scope `worker`. */
  readonly resource: ResourceOption;
  readonly manager: LeaseManager | undefined;
  readonly whenBusy: WhenBusy;
  readonly whenLost: WhenLost;
  readonly abandonAfterMs: number;
  readonly graceMs: number;
  readonly acquire: Pick<AcquireOptions, 'ttl' | 'fences' | 'activate' | 'maxHold'>;
}

type Acquire = LeaseSettings['acquire'];

const DEFAULT_GRACE_MS = 10_000;

const fence = z.custom<Fence>(
  (value) => typeof value === 'object' && value !== null && typeof (value as Partial<Fence>).activate === 'function',
  'must be a fence',
);

const manager = z.custom<LeaseManager>(
  (value) => typeof (value as Partial<LeaseManager> | null)?.tryRun === 'function',
  'must be a LeaseManager',
);

function duration(option: string): z.ZodType<number> {
  return z.unknown().transform((value) => parseDuration(option, value));
}

function oneOf<const T extends string>(...values: readonly T[]): z.ZodType<T> {
  const texts = values.map((value) => `'${value}'`);
  return z.literal(values, `must be ${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`);
}

function leaseSchema(path: string) {
  return z.strictObject({
    resource: z.unknown().transform((resource) => {
      if (resource === undefined || resource === null) {
        throw new ConfigError(
          `${path}.resource`,
          `is ${resource}: must be a text, or a function of the job that gives one (or null, for a job without a lease)`,
        );
      }
      if (typeof resource !== 'function') checkResource(`${path}.resource`, resource);
      return resource as ResourceOption;
    }),
    scope: oneOf('job', 'worker').optional(),
    manager: manager.optional(),
    whenBusy: oneOf('delay', 'hold', 'skip', 'fail').optional(),
    whenLost: oneOf('requeue', 'retry', 'fail').optional(),
    abandonAfter: duration(`${path}.abandonAfter`).optional(),
    grace: duration(`${path}.grace`).optional(),
    // The manager has more rules for it; this much is wrong everywhere.
    ttl: duration(`${path}.ttl`)
      .refine((ms) => ms >= 100 && ms <= 86_400_000, "must be 100 ms to 24 h; a text such as '30s' has its unit")
      .optional(),
    fences: z.array(fence, 'must be an array of fences').optional(),
    activate: oneOf('before', 'on-write').optional(),
    maxHold: duration(`${path}.maxHold`)
      .refine((ms) => ms >= 1, 'must be at least 1 ms')
      .optional(),
  });
}

const defaultsSchema = z.strictObject({ manager: manager.optional() });

/** Of `withLease`. Throws `ConfigError`. */
export function parseDefaults(defaults: { readonly manager?: LeaseManager }): LeaseManager | undefined {
  return parseOptions(defaultsSchema, defaults).manager;
}

/** Throws `ConfigError` naming the option as the caller wrote it: `path` is where the options stand. */
export function parseLeaseOptions<D, R, N extends string>(
  options: LeaseOptions<D, R, N> | LeasedOptions<D, R, N> | undefined,
  path: string,
): LeaseSettings {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(
      path,
      'is missing; say what has one owner: { resource: (job) => `customer:${job.data.customerId}` }',
    );
  }
  const schema = z.strictObject({ [path]: leaseSchema(path) });
  const given = parseOptions(schema, { [path]: options })[path] as z.infer<ReturnType<typeof leaseSchema>>;
  const { resource, scope = 'job', manager, whenBusy, whenLost, abandonAfter, grace, ...acquire } = given;
  if (scope === 'worker') checkWorkerScope(path, resource, whenBusy);
  return {
    scope,
    resource,
    manager,
    whenBusy: whenBusy ?? 'delay',
    whenLost: whenLost ?? 'requeue',
    abandonAfterMs: abandonAfter ?? Infinity,
    graceMs: grace ?? DEFAULT_GRACE_MS,
    acquire: acquire as Acquire,
  };
}

function checkWorkerScope(path: string, resource: ResourceOption, whenBusy: WhenBusy | undefined): void {
  if (typeof resource !== 'string') {
    throw new ConfigError(
      `${path}.resource`,
      "is a function; with scope 'worker' one lease covers all jobs, so it must be a string",
    );
  }
  if (whenBusy !== undefined) {
    throw new ConfigError(
      `${path}.whenBusy`,
      "has no meaning with scope 'worker': a worker without the lease takes no jobs, so none of them finds it busy",
    );
  }
}
