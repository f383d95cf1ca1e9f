import type { Grant, Holding } from '../fence/fence.ts';
import { grantOf } from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { checkSign } from './checks.ts';
import type { Sign } from './signature.ts';
import { writeGrant } from './wire.ts';

export interface FencingHeadersOptions {
  /** Adds `Fencing-Signature`. See `signer`. @default none */
  readonly sign?: Sign | undefined;
}

/** The grant of a lease that is held at this instant, by the clocks. A bare grant is taken as it is. */
export function heldGrant(grant: Grant | Holding): Grant {
  const asked = grantOf(grant);
  if (asked !== grant) (grant as Holding).assertHeld();
  return asked;
}

/**
 * The `Fencing-*` headers for one request, for clients other than fetch. Await nothing between this call and the send.
 * Whoever uses them must take a 412 with `Fencing-Highest` for the end of the run: `fencedFetch` does.
 *
 * Throws `LeaseLostError` unless the lease is held; `ConfigError` for what is neither a lease nor a grant.
 */
export function fencingHeaders(grant: Grant | Holding, options: FencingHeadersOptions = {}): Record<string, string> {
  refuseUnknown(options, ['sign']);
  checkSign(options.sign);
  return writeGrant(heldGrant(grant), options.sign);
}
