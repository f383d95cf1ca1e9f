import { inspect } from 'node:util';

import { LeaseLostError, RunCancelledError, type Grant, type LossReason, type CancelReason } from '@leasehold/core';

import type { FenceSettings } from '../../config/settings.ts';
import type { JobInfo, RunInfo } from '../context.ts';
import { readable } from '../thrown.ts';
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

/** What a thread is made with, and a process is told first. */
export interface Beginning {
  readonly data: HandlerData;
  /** What messages from there are known by. */
  readonly key: string;
}

export type ToProcess = ToHandler | ({ readonly type: 'begin' } & Beginning);

/** A process tells what ends it, where a thread has an event for it. */
export type FromProcess = FromHandler | { readonly type: 'fault'; readonly error: PlainError };

/** A message on its way from a handler's thread or process. */
export interface Keyed<Message> {
  readonly key: string | undefined;
  readonly message: Message;
}

/**
 * The message, if it is ours; undefined for what the handler, or a library of it, has sent by itself: `process.send` and `parentPort` are
 * theirs as well, and send anything.
 */
export function ours(sent: unknown, key: string): FromProcess | undefined {
  if (typeof sent !== 'object' || sent === null) return undefined;
  const keyed = sent as Partial<Keyed<FromProcess>>;
  return keyed.key === key ? keyed.message : undefined;
}

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

const MAX_SHOWN = 500;

/** Of anything that was thrown. Never throws, and what it returns can be copied. */
export function plainOf(thrown: unknown): PlainError {
  const error = readable(thrown);
  if (!(error instanceof Error)) {
    const message = `no Error was thrown but ${inspect(error).slice(0, MAX_SHOWN)}`;
    return { name: 'Error', message, stack: undefined, code: undefined, reason: undefined };
  }
  return {
    name: textOf(error, 'name') ?? 'Error',
    message: textOf(error, 'message') ?? '',
    stack: textOf(error, 'stack'),
    code: textOf(error, 'code'),
    reason: textOf(error, 'reason'),
  };
}

function textOf(error: { readonly [Part in keyof PlainError]?: unknown }, part: keyof PlainError): string | undefined {
  try {
    const value = error[part];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
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
