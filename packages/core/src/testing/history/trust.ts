/**
 * How long an owner may believe in what the store has confirmed, as the rule has it (Gray and Cheriton, Leases, 1989): less
 * than the store keeps it, by what two clocks may drift apart meanwhile and by a margin for what lies between a check and
 * its effect. Written down here once more, and not taken from the engine: a mistake there must not hide itself here.
 */

const LEAST_MARGIN_MS = 20;
const MOST_MARGIN_MS = 500;

/** A twentieth of the ttl, 20 ms at least and 500 ms at most, unless it is given. Milliseconds. */
export function marginFor(ttlMs: number, givenMs: number | undefined): number {
  if (givenMs !== undefined) return givenMs;
  const twentieth = 0.05 * ttlMs;
  if (twentieth < LEAST_MARGIN_MS) return LEAST_MARGIN_MS;
  return twentieth > MOST_MARGIN_MS ? MOST_MARGIN_MS : twentieth;
}

/** Of `remainingMs` by the store's clock, so much by the owner's. `driftRate`: milliseconds that a clock may lose in each. */
export function trustFor(remainingMs: number, driftRate: number, marginMs: number): number {
  return remainingMs - remainingMs * driftRate - marginMs;
}
