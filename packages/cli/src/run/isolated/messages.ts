import { LeaseLostError, RunCancelledError, type Grant, type LossReason, type CancelReason } from '@leasehold/core';

import type { FenceSettings } from '../../config/settings.ts';
import type { JobInfo, RunInfo } from '../context.ts';
import type { Until, WindowSource } from './lease-window.ts';

/** What a thread or a process is made with. */
export interface HandlerData {
  readonly job: string;
  /** The absolute path of the handler's module. */
  readonly file: string;
  readonly exported: string;
  /** Those of the config; null for those that the job does not name. */
  readonly fences: readonly (readonly [name: string, settings: FenceSettings | null])[];
  readonly logLevel: string;
}

/** A run that is to begin; one at a time in each place. */
export interface RunMessage {
  readonly type: 'run';
  readonly job: JobInfo;
  readonly run: RunInfo;
  readonly lease: {
    readonly resource: string;
    readonly grant: Grant;
    readonly ttlMs: number;
    readonly window: WindowSource;
  };
}

export type ToHandler =
  | RunMessage
  | { readonly type: 'abort'; readonly reason: PlainError }
  /** Where no memory is shared: until when the lease may be trusted now. */
  | { readonly type: 'until'; readonly until: Until };

export type FromHandler =
  /** Its file is imported and its fences are open. */
  | { readonly type: 'opened' }
  | { readonly type: 'log'; readonly line: string }
  | { readonly type: 'refused'; readonly refusal: Refusal }
  | { readonly type: 'done'; readonly value: unknown }
  | { readonly type: 'failed'; readonly error: PlainError };

/** A process is told as a message what a thread is made with. */
export type ToProcess = ToHandler | { readonly type: 'begin'; readonly data: HandlerData };

/** A process tells what ends it, where a thread has an event for it. */
export type FromProcess = FromHandler | { readonly type: 'fault'; readonly error: PlainError };

/** What a `StaleTokenError` is made of. */
export interface Refusal {
  readonly fence: string;
  readonly resource: string;
  readonly fencingToken: number;
  readonly highest: { readonly fencingToken: number; readonly leaseId: string | null };
}

/** What is left of an error on its way to another thread or process. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
  readonly reason: string | undefined;
}

export function plainOf(error: unknown): PlainError {
  if (!(error instanceof Error)) {
    const message = `no Error was thrown but ${typeof error === 'string' ? error : typeof error}`;
    return { name: 'Error', message, stack: undefined, code: undefined, reason: undefined };
  }
  const { name, message, stack, code, reason } = error as Error & {
    readonly code?: unknown;
    readonly reason?: unknown;
  };
  const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
  return { name, message, stack, code: text(code), reason: text(reason) };
}

/** An error that looks the same. Its name is what BullMQ goes by. */
export function errorOf({ name, message, stack, code }: PlainError): Error {
  return Object.assign(new Error(message), { name, ...(stack && { stack }), ...(code && { code }) });
}

/** What the signal of a run aborts with. */
export function reasonOf(plain: PlainError, resource: string, { leaseId, fencingToken }: Grant): Error {
  switch (plain.code) {
    case 'RUN_CANCELLED':
      return new RunCancelledError(resource, plain.reason as CancelReason, fencingToken);
    case 'LEASE_LOST':
      return new LeaseLostError(resource, { reason: plain.reason as LossReason, leaseId, fencingToken });
    default:
      return errorOf(plain);
  }
}
