import type { Clock } from '../clock.ts';
import { LeaseholdError } from '../errors.ts';
import type { Fence, Grant } from '../fence/fence.ts';
import { within } from '../lease/within.ts';

/** What fences say to a grant that they are to refuse. */
export interface Refusals {
  readonly refusedBy: readonly string[];
  /** Those that admitted it, or did not answer. */
  readonly notRefusedBy: readonly string[];
}

const FENCE_TIMEOUT_MS = 5000;

/** Tries an old grant with its first and empty operation: a fence that is sealed refuses it, and writes nothing. */
export async function tryOldGrant(clock: Clock, fences: readonly Fence[], grant: Grant): Promise<Refusals> {
  const refusals = await Promise.all(fences.map(async (fence) => refuses(clock, fence, grant)));
  const named = (does: boolean): string[] => fences.filter((_, at) => refusals[at] === does).map(({ name }) => name);
  return { refusedBy: named(true), notRefusedBy: named(false) };
}

async function refuses(clock: Clock, fence: Fence, grant: Grant): Promise<boolean> {
  try {
    const asked = fence.activate(grant);
    asked.catch(() => {}); // it may come when nobody waits any more
    await within(clock, asked, FENCE_TIMEOUT_MS);
    return false; // admitted, or silent
  } catch (error) {
    return LeaseholdError.is(error, 'STALE_TOKEN');
  }
}
