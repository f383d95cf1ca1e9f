/**
 * Looking at what code of somebody else's threw. Anything can be: undefined, a text, a proxy, an error with a getter that
 * throws. No look here throws, and a look that fails answers as for something unknown.
 */

import { ConfigError, LeaseholdError } from './errors.ts';

/** What `look` gives, or undefined if it throws. */
export function peek<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** Whether it is an error; not whether all of it can be read. */
export function isError(thrown: unknown): thrown is Error {
  return peek(() => thrown instanceof Error) === true;
}

/** A property of something thrown; undefined if there is none, or it cannot be read. */
export function propertyOf(thrown: unknown, name: string): unknown {
  return peek(() => (thrown as Readonly<Record<string, unknown>> | null | undefined)?.[name]);
}

/** What it says of itself, for the message of another error. */
export function messageOf(thrown: unknown): string {
  if (isError(thrown)) {
    const message = propertyOf(thrown, 'message');
    if (typeof message === 'string') return message;
  }
  return peek(() => String(thrown)) ?? 'something was thrown that cannot be looked at';
}

/**
 * What a function among the options gives. If it throws, that is a fault of the option: `ConfigError` with what was thrown
 * as its cause. A `ConfigError` of its own stays what it is.
 */
export function given<T>(option: string, call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    const own = LeaseholdError.of(thrown);
    throw own?.code === 'CONFIG' ? own : new ConfigError(option, `threw: ${messageOf(thrown)}`, thrown);
  }
}
