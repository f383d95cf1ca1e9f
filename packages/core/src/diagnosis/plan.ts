import { UnsafeReleaseError } from '../errors.ts';
import { MAX_TOKEN_AHEAD_US } from '../fence/fence.ts';
import type { Diagnosis } from './diagnose.ts';
import type { ForceReleaseSettings } from './options.ts';
import { plain } from './probes/words.ts';
import { isGuarded, type FenceFact } from './verdict.ts';

/** What is about to be done. */
export interface ReleasePlan {
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly owner: string;
  /** The fences that are sealed first, and the token they are raised to. */
  readonly seals: readonly string[];
  readonly sealToken: number;
  /** Two owners may act: no fence is there that is known to guard the resource. */
  readonly isUnfenced: boolean;
  readonly diagnosis: Diagnosis;
}

/** Throws `UnsafeReleaseError` unless the diagnosis allows it. */
export function planOf(diagnosis: Diagnosis, settings: ForceReleaseSettings): ReleasePlan {
  const { resource, lease, verdict } = diagnosis;
  const { leaseId, fences = [], acceptDoubleExecution } = settings;
  if (lease !== null && lease.state !== 'free' && lease.leaseId !== leaseId) {
    throw new UnsafeReleaseError(resource, [`the lease is ${plain(lease.leaseId)} by now, not ${leaseId}: look again`]);
  }
  const seals = fences.filter(({ enforcing }) => enforcing).map(({ name }) => name);
  const isUnfenced = !isGuarded(diagnosis.fences);
  const { allowed } = verdict;
  const { missing } = isUnfenced ? allowed.forceReleaseUnfenced : allowed.forceRelease;
  const token = lease?.fencingToken ?? 0;
  const verbatim = `${resource}#${token}`;
  // Words are of use only where somebody holds it.
  const unaccepted =
    lease !== null && lease.state !== 'free' && isUnfenced && acceptDoubleExecution !== verbatim
      ? [
          `no enforcing fence was named that knows this resource; without one two owners may act: name it, or accept that with acceptDoubleExecution '${verbatim}'`,
        ]
      : [];
  if (lease === null || missing.length + unaccepted.length > 0) {
    throw new UnsafeReleaseError(resource, [...missing, ...unaccepted]);
  }
  const sealToken = sealTokenOf(diagnosis);
  if (sealToken >= lease.readAt.getTime() * 1000 + MAX_TOKEN_AHEAD_US) {
    throw new UnsafeReleaseError(resource, [
      `a fence is at ${sealToken - 1}, more than 24 h ahead of the store's clock`,
    ]);
  }
  return { resource, leaseId, fencingToken: token, owner: lease.owner, seals, sealToken, isUnfenced, diagnosis };
}

/** What a seal goes by. */
interface Seen {
  readonly lease: { readonly fencingToken: number } | null;
  readonly fences: readonly Pick<FenceFact, 'highest'>[];
}

/** Beyond all that the record and the fences have given out. */
export function sealTokenOf({ lease, fences }: Seen): number {
  return Math.max(lease?.fencingToken ?? 0, ...fences.map(({ highest }) => highest ?? 0)) + 1;
}
