import { valueOf } from '../store/reading.ts';
import type { RecordShape } from '../store/evidence.ts';
import type { LeaseStore, StoreCall } from '../store/store.ts';
import { pause, tell, type ObserveOptions } from './observe.ts';
import type { Observation } from './verdict.ts';

/** Somebody waits for the answer. */
const MOST_MS = 60_000;
/** How far the server's clock and ours may run apart meanwhile, and what a time to live is rounded by. */
const SLACK_MS = 50;
const SLACK_PART = 0.01;

/**
 * Watches what is not ours, for as long as it has to live, a minute at most: `changed` as soon as somebody has extended it or
 * set it anew. `unchanged` proves nothing: its owner may extend it more seldom, or not at all. `none` for what never
 * expires, and if the store cannot tell. Rejects with the signal's reason.
 */
export async function observeForeign(
  store: LeaseStore,
  resource: string,
  { clock, call, signal, onProgress }: ObserveOptions,
): Promise<Observation> {
  const first = await shapeOf(store, resource, call);
  if (first?.kind !== 'foreign' || first.ttlMs === null) return { state: 'none', forMs: 0, neededMs: 0 };
  const { ttlMs } = first;
  const fromMs = clock.monotonicMs();
  const neededMs = Math.min(ttlMs, MOST_MS);
  const stepMs = Math.min(2000, Math.max(50, neededMs / 20));
  let forMs = 0;
  while (forMs < neededMs) {
    tell(onProgress, { state: 'unchanged', forMs, neededMs });
    await pause(clock, Math.min(stepMs, neededMs - forMs), signal);
    // Before the question, so that the least has passed since the first answer that can have.
    const passedMs = clock.monotonicMs() - fromMs;
    const now = await shapeOf(store, resource, call);
    if (now === undefined) return { state: 'none', forMs, neededMs };
    // It ran out, or is ours by now: nobody has extended it.
    if (now.kind !== 'foreign') break;
    forMs = passedMs;
    const isLonger = (now.ttlMs ?? Infinity) > ttlMs - passedMs + SLACK_MS + passedMs * SLACK_PART;
    if (isLonger || now.preview !== first.preview) return { state: 'changed', forMs, neededMs };
  }
  return { state: 'unchanged', forMs: Math.min(forMs, neededMs), neededMs };
}

async function shapeOf(store: LeaseStore, resource: string, call: StoreCall): Promise<RecordShape | undefined> {
  const evidence = await store.evidence?.(resource, null, call).catch(() => undefined);
  return evidence && valueOf(evidence.shape);
}
