import type { Fence, Grant } from '../fence/fence.ts';
import type { Ground } from '../lease/ground.ts';
import { within } from '../lease/within.ts';
import { untilAborted } from './abort.ts';
import { tryOldGrant, type Refusals } from './old-grant.ts';

/** What came after a release by force. */
export interface Aftermath extends Refusals {
  /** Who acquired it next, and how long after the release; null if nobody did for as long as it was watched. */
  readonly successor: {
    readonly owner: string;
    readonly leaseId: string;
    readonly fencingToken: number;
    readonly afterMs: number;
  } | null;
  /** The store was asked for the next owner and answered, the last time. False: somebody may have acquired it, unseen. */
  readonly storeAnswered: boolean;
}

const POLL_MS = 100;

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
  const fencesSay = await tryOldGrant(clock, fences, grant);
  for (;;) {
    const record = await store.read(resource, call).catch(() => undefined);
    const storeAnswered = record !== undefined;
    const afterMs = clock.monotonicMs() - fromMs;
    if (record && record.fencingToken > releasedToken) {
      // It may have let go again by now: then the record tells who it was.
      const owner = record.owner === '' ? (record.previous?.owner ?? '') : record.owner;
      const { leaseId, fencingToken } = record;
      return { ...fencesSay, successor: { owner, leaseId, fencingToken, afterMs }, storeAnswered };
    }
    const leftMs = forMs - afterMs;
    if (leftMs <= 0 || signal?.aborted === true) return { ...fencesSay, successor: null, storeAnswered };
    const pause = within(clock, new Promise<never>(() => {}), Math.min(POLL_MS, leftMs));
    await untilAborted(pause, signal).catch(() => {});
  }
}
