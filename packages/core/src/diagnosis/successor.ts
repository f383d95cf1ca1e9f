import { LeaseholdError } from '../errors.ts';
import type { Fence, Grant } from '../fence/fence.ts';
import type { Ground } from '../lease/ground.ts';
import { within } from '../lease/within.ts';
import { untilAborted } from './abort.ts';

/** What came after a release by force. */
export interface Aftermath {
  /** Who acquired it next, and how long after the release; null if nobody did for as long as it was watched. */
  readonly successor: {
    readonly owner: string;
    readonly leaseId: string;
    readonly fencingToken: number;
    readonly afterMs: number;
  } | null;
  /** The fences that refuse the old grant, tried with its first and empty operation. */
  readonly refusedBy: readonly string[];
  /** Those that do not, or did not answer. */
  readonly notRefusedBy: readonly string[];
}

const POLL_MS = 100;
const FENCE_TIMEOUT_MS = 5000;

/**
 * Tries the old grant at each fence: a sealed one refuses it and writes nothing. Then waits for the next owner. The release
 * has been done: whatever fails here is something that was not seen.
 */
export async function watchSuccessor(
  ground: Ground,
  {
    grant,
    resource,
    releasedToken,
  }: { readonly grant: Grant; readonly resource: string; readonly releasedToken: number },
  fences: readonly Fence[],
  forMs: number,
  signal: AbortSignal | undefined,
): Promise<Aftermath> {
  const { clock, store, call } = ground;
  const fromMs = clock.monotonicMs();
  const refusals = await Promise.all(fences.map((fence) => refuses(ground, fence, grant)));
  const named = (does: boolean): string[] => fences.filter((_, at) => refusals[at] === does).map(({ name }) => name);
  const fencesSay = { refusedBy: named(true), notRefusedBy: named(false) };
  for (;;) {
    const record = await store.read(resource, call).catch(() => null);
    const afterMs = clock.monotonicMs() - fromMs;
    if (record !== null && record.fencingToken > releasedToken) {
      // It may have let go again by now: then the record tells who it was.
      const owner = record.owner === '' ? (record.previous?.owner ?? '') : record.owner;
      const { leaseId, fencingToken } = record;
      return { ...fencesSay, successor: { owner, leaseId, fencingToken, afterMs } };
    }
    const leftMs = forMs - afterMs;
    if (leftMs <= 0 || signal?.aborted === true) return { ...fencesSay, successor: null };
    const pause = within(clock, new Promise<never>(() => {}), Math.min(POLL_MS, leftMs));
    await untilAborted(pause, signal).catch(() => {});
  }
}

async function refuses({ clock }: Ground, fence: Fence, grant: Grant): Promise<boolean> {
  try {
    const asked = fence.activate(grant);
    asked.catch(() => {}); // it may come when nobody waits any more
    await within(clock, asked, FENCE_TIMEOUT_MS);
    return false; // admitted, or silent
  } catch (error) {
    return LeaseholdError.is(error, 'STALE_TOKEN');
  }
}
