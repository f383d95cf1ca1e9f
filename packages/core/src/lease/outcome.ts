/** What a body came to, and why it was cancelled, in the store's words. */

import { LeaseholdError, LeaseLostError, RunCancelledError } from '../errors.ts';
import type { Outcome } from '../store/store.ts';
import type { Tenure } from './tenure.ts';

/** A caller that cancels because it shuts down says so, for example an adapter whose worker closes before the manager. */
export function cancelReasonOf(reason: unknown): 'caller' | 'shutdown' {
  const own = LeaseholdError.of(reason);
  return own instanceof RunCancelledError && own.reason === 'shutdown' ? 'shutdown' : 'caller';
}

/** What the end of a body means for the tick it ran for. */
export function outcomeOf(held: boolean, failed: boolean, failure: unknown, tenure: Tenure): Outcome {
  if (LeaseholdError.of(failure)?.code === 'NOT_STARTED') return 'not-started';
  if (!held) return 'aborted';
  if (!failed) return 'done';
  return tenure.cancellation === undefined ? 'failed' : 'aborted';
}

/** What a run is rejected with that was no longer held when its body had settled. */
export function lossOfRun(
  tenure: Tenure,
  settled: { readonly value: unknown } | { readonly error: unknown },
): LeaseLostError {
  const loss = tenure.lossError();
  const failed = 'error' in settled;
  if (failed && settled.error === loss) return loss;
  return new LeaseLostError(tenure.resource, {
    reason: loss.reason,
    leaseId: loss.leaseId,
    fencingToken: tenure.grant.fencingToken,
    settled,
    cause: failed ? settled.error : loss.cause,
  });
}
