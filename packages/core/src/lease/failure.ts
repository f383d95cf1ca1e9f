import { LeaseholdError, StoreUnavailableError } from '../errors.ts';
import { messageOf } from '../thrown.ts';

/**
 * What a store threw, as one of our errors. The port allows it nothing else; but a store of somebody else's that forgets
 * to wrap an error must not make busy out of broken.
 */
export function failureOf(error: unknown, resource?: string): LeaseholdError {
  const own = LeaseholdError.of(error);
  return (
    own ??
    new StoreUnavailableError(`the store failed: ${messageOf(error)}`, { resource, mayHaveRun: true, cause: error })
  );
}

/** Whether the request may have been carried out although it was not answered. */
export function mayHaveRun(error: LeaseholdError): boolean {
  return error instanceof StoreUnavailableError && error.mayHaveRun;
}
