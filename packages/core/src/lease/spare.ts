/**
 * What a lease has left for those who hold it after its first holder, in the same process and one after the other. They
 * share it. Each takes the next token, so that a late write of one before is refused at a fence as that of a stranger is;
 * the leaseId stays, because to the store it is one lease.
 */
export interface Spare {
  /** How many tokens above that of the last holder are left; none once somebody else has asked for the resource. */
  tokens: number;
  /** When it is given back at the latest, by the monotonic clock; infinite until its first holder has released it. */
  untilMs: number;
}

/** So many can hold it after the first one. The tokens run ahead of the store's clock by as many µs. */
const SPARE_TOKENS = 1000;

export function newSpare(): Spare {
  return { tokens: SPARE_TOKENS, untilMs: Infinity };
}
