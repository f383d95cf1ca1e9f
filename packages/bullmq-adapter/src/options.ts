import {
  ConfigError,
  parseDuration,
  parseOptions,
  type AcquireOptions,
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
 * `Error`: with `LeaseLostError` when the lease is lost; with `RunCancelledError`, the lease still held, when the manager
 * closes or `maxHold` has passed, and with reason `caller` when the job is cancelled (`worker.cancelJob`) or BullMQ could
 * not renew its own lock of the job (`cause` says which).
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

/** Under which lease jobs run: `ttl`, `fences`, `activate` and `maxHold` are those of `LeaseManager.run`. */
export interface LeaseOptions<D = any, R = any, N extends string = string> extends Pick<
  AcquireOptions,
  'ttl' | 'fences' | 'activate' | 'maxHold'
> {
  readonly resource: ResourceOption<D, R, N>;
  /** @default one manager for each `connection`, on connections of its own, closed with the last worker that uses it */
  readonly manager?: LeaseManager;
}

/** For `leased()`, which has no connection to make a manager from. */
export interface LeasedOptions<D = any, R = any, N extends string = string> extends LeaseOptions<D, R, N> {
  readonly manager: LeaseManager;
}

/** BullMQ's options and one more. */
export type LeasedWorkerOptions<D = any, R = any, N extends string = string> = WorkerOptions & {
  readonly lease: LeaseOptions<D, R, N>;
};

/** Lease options after checking. */
export interface LeaseSettings {
  readonly resource: ResourceOption;
  readonly manager: LeaseManager | undefined;
  readonly acquire: Pick<AcquireOptions, 'ttl' | 'fences' | 'activate' | 'maxHold'>;
}

type Acquire = LeaseSettings['acquire'];

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

function leaseSchema(path: string) {
  return z.strictObject({
    resource: z.unknown().transform((resource) => {
      if (typeof resource !== 'function') checkResource(`${path}.resource`, resource);
      return resource as ResourceOption;
    }),
    manager: manager.optional(),
    // The manager has more rules for it; this much is wrong everywhere.
    ttl: duration(`${path}.ttl`)
      .refine((ms) => ms >= 100 && ms <= 86_400_000, "must be 100 ms to 24 h; a text such as '30s' has its unit")
      .optional(),
    fences: z.array(fence, 'must be an array of fences').optional(),
    activate: z.enum(['before', 'on-write'], "must be 'before' or 'on-write'").optional(),
    maxHold: duration(`${path}.maxHold`)
      .refine((ms) => ms >= 1, 'must be at least 1 ms')
      .optional(),
  });
}

/** Throws `ConfigError` naming the option as the caller wrote it: `path` is where the options stand. */
export function parseLeaseOptions<D, R, N extends string>(
  options: LeaseOptions<D, R, N> | undefined,
  path: string,
): LeaseSettings {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(
      path,
      'is missing; say what has one owner: { resource: (job) => `customer:${job.data.customerId}` }',
    );
  }
  const schema = z.strictObject({ [path]: leaseSchema(path) });
  const { resource, manager, ...given } = parseOptions(schema, { [path]: options })[path] as z.infer<
    ReturnType<typeof leaseSchema>
  >;
  return { resource, manager, acquire: given as Acquire };
}
