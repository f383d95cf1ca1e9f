import type { Grant, Lease } from '@leasehold/core';
import type { Job, SandboxedJob } from 'bullmq';
import { propertyOf } from './thrown.ts';

/**
 * `job.lease` in a processor that is a file: plain data, because it is in another process or thread. It is a grant, with the
 * qualified name of the resource, so that fences take it as they take a lease; they cannot tell by the clocks there that it
 * is lost, only that it is stale.
 */
export interface SandboxedLease extends Grant {
  readonly grant: Grant;
}

/** The job in a processor that is a file. `lease` is missing where `resource` gave null. */
export type SandboxedLeasedJob<D = any, R = any> = SandboxedJob<D, R> & { readonly lease: SandboxedLease };

/**
 * What the signal of a processor that is a file is aborted with: what is left of an error there. A processor that blocks its
 * event loop never hears of it, nor does BullMQ notice; only a fence stands between such a one and its successor.
 */
export interface SandboxedReason {
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
  /** The `reason` of a `LeaseLostError` or `RunCancelledError`. */
  readonly reason: string | undefined;
}

/** Runs a job whose processor is a file: its lease goes along, as plain data, and the signal's reason can be sent. */
export async function inSandbox<T>(
  job: Job,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  sendLease(job);
  const controller = new AbortController();
  const abort = (): void => controller.abort(plainReason(signal.reason));
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort);
  try {
    return await run(controller.signal);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** In what BullMQ sends to the child; not in the job's data, which is stored, nor in the token, which is BullMQ's lock. */
function sendLease(job: Job): void {
  const { lease } = job as Job & { readonly lease?: Lease };
  if (lease === undefined) return;
  const { grant } = lease;
  const plain: SandboxedLease = { ...grant, grant };
  const asJSON = job.asJSONSandbox.bind(job);
  Object.defineProperty(job, 'asJSONSandbox', {
    value: () => ({ ...asJSON(), lease: plain }),
    configurable: true,
  });
}

/** An error becomes `{}` on its way to another process. */
function plainReason(error: unknown): SandboxedReason {
  const text = (name: string): string | undefined => {
    const value = propertyOf(error, name);
    return typeof value === 'string' ? value : undefined;
  };
  return { name: text('name') ?? 'Error', code: text('code'), message: text('message') ?? '', reason: text('reason') };
}
