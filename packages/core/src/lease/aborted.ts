import { RunCancelledError } from '../errors.ts';

/** Throws `RunCancelledError` if the caller of an acquisition has ended it. */
export function throwIfAborted(resource: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new RunCancelledError(resource, 'caller', undefined, signal.reason);
}
