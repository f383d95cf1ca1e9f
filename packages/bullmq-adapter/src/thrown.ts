/**
 * Looking at what was thrown. Anything can be: undefined, a text, an error of another realm, a proxy, an error with a getter
 * that throws. No look here throws, and a look that fails answers as for something unknown.
 */

import { inspect, types } from 'node:util';
import { LeaseholdError, type ErrorCode } from '@leasehold/core';

const CONTROL_NAMES: ReadonlySet<unknown> = new Set([
  'DelayedError',
  'WaitingError',
  'WaitingChildrenError',
  'RateLimitError',
  'UnrecoverableError',
]);

const MAX_CAUSES = 50;
const MAX_SHOWN = 500;

/** What `look` gives, or undefined if it throws. */
function peek<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** A property of something thrown; undefined if there is none, or it cannot be read. */
export function propertyOf(thrown: unknown, name: string): unknown {
  return peek(() => (thrown as Readonly<Record<string, unknown>> | null | undefined)?.[name]);
}

/** Whether it is an error that can be read, also one of another realm. */
export function isError(thrown: unknown): thrown is Error {
  return (peek(() => thrown instanceof Error) === true || types.isNativeError(thrown)) && isReadable(thrown);
}

/** The code of a Leasehold error itself, not of one among its causes. */
export function codeOf(thrown: unknown): ErrorCode | undefined {
  return peek(() => LeaseholdError.of(thrown)?.code);
}

/** What was thrown and what it was made from, as timers, `fetch` and clients of databases do. */
export function causesOf(thrown: unknown): readonly unknown[] {
  const chain: unknown[] = [];
  let at = thrown;
  // A getter may give a new cause each time.
  while (at !== undefined && !chain.includes(at) && chain.length < MAX_CAUSES) {
    chain.push(at);
    at = propertyOf(at, 'cause');
  }
  return chain;
}

/** Whether a processor told BullMQ what to do with the job. By name, as BullMQ does: there may be two copies of it. */
export function isControlError(thrown: unknown): boolean {
  return CONTROL_NAMES.has(propertyOf(thrown, 'name')) || propertyOf(thrown, 'message') === 'bullmq:rateLimitExceeded';
}

/**
 * Of what was thrown by other code than the processor: in BullMQ's control errors nobody has moved the job, so that BullMQ
 * would leave it active. They become an error that says so; everything else passes.
 */
export function withoutOrders(thrown: unknown, whence: string): unknown {
  const name = propertyOf(thrown, 'name');
  if (!isControlError(thrown) || name === 'UnrecoverableError') return thrown;
  const what = typeof name === 'string' ? name : 'a rate limit';
  return new Error(`${what} ${whence}: only a processor can tell BullMQ what to do with a job`, { cause: thrown });
}

/**
 * What BullMQ can be given as a failure: what was thrown if BullMQ can read it, else an error that says what it was. BullMQ
 * would record the failure "null" for a text, and break with the job still active for `undefined`.
 */
export function asError(thrown: unknown): Error {
  if (isReadable(thrown)) return thrown;
  const what = peek(() =>
    inspect(thrown, { customInspect: false, depth: 1, breakLength: Infinity }).slice(0, MAX_SHOWN),
  );
  return new Error(`no Error was thrown but ${what ?? 'something that cannot be looked at'}`, { cause: thrown });
}

/** Everything that BullMQ reads of a failure. */
function isReadable(thrown: unknown): thrown is Error {
  return (
    typeof thrown === 'object' &&
    peek(() => {
      const { message, name, stack } = thrown as { readonly [property in keyof Error]: unknown };
      return typeof message === 'string' && isTextOrMissing(name) && isTextOrMissing(stack);
    }) === true
  );
}

function isTextOrMissing(value: unknown): boolean {
  return value === undefined || typeof value === 'string';
}
