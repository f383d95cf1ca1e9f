import type { Clock } from '../clock.ts';
import { safely, silentLogger } from '../log.ts';
import type { LeaseRecord, LeaseStore, StoreCall } from '../store/store.ts';
import type { Observation } from './verdict.ts';

/** The store's clock and ours run apart by less than this: the default of `driftRate`, by which an owner reckons. */
const DRIFT_RATE = 0.01;
const LEAST_MARGIN_MS = 1000;

/** How long a lease must have run out before a clock that is not its owner's is believed. */
export function marginOf(ttlMs: number): number {
  return Math.max(2 * ttlMs * DRIFT_RATE, LEAST_MARGIN_MS);
}

export interface ObserveOptions {
  readonly clock: Clock;
  readonly call: StoreCall;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((observation: Observation) => void) | undefined;
}

/**
 * Watches a record by this process's monotonic clock, for as long as its ttl and the margin: if nothing about it has changed
 * by then, nobody extends it, whatever any wall clock says. (The method of DynamoDB's lock client and of Kubernetes' leader
 * election.) Ends at once when it changes. Time that this process did not run is not counted: what it did not see may have
 * happened. Rejects as `store.read` does, and with the signal's reason.
 */
export async function observe(
  store: LeaseStore,
  resource: string,
  record: LeaseRecord,
  { clock, call, signal, onProgress }: ObserveOptions,
): Promise<Observation> {
  const neededMs = record.ttlMs + marginOf(record.ttlMs);
  const stepMs = Math.min(1000, Math.max(20, neededMs / 20));
  let forMs = 0;
  let lastMs = clock.monotonicMs();
  while (forMs < neededMs) {
    tell(onProgress, { state: 'unchanged', forMs, neededMs });
    await pause(clock, Math.min(stepMs, neededMs - forMs), signal);
    // Before the question: how long the answer took is no time in which it is known to be so.
    const atMs = clock.monotonicMs();
    const now = await store.read(resource, call);
    if (now === null || isChanged(record, now)) return { state: 'changed', forMs, neededMs };
    // A gap is a pause of ours. The record is the same as before it, but that it was so all the time we have not seen.
    forMs += Math.min(atMs - lastMs, 3 * stepMs);
    lastMs = atMs;
  }
  return { state: 'unchanged', forMs, neededMs };
}

/** Who looks on cannot break it. */
export function tell(onProgress: ObserveOptions['onProgress'], observation: Observation): void {
  safely(silentLogger, 'onProgress', () => onProgress?.(observation));
}

/** Whether somebody has done something with the lease. */
export function isChanged(before: LeaseRecord, after: LeaseRecord): boolean {
  return (
    before.leaseId !== after.leaseId ||
    before.fencingToken !== after.fencingToken ||
    before.extensions !== after.extensions ||
    before.owner !== after.owner
  );
}

export function pause(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason as Error);
    const abort = (): void => {
      timer.clear();
      reject(signal?.reason as Error);
    };
    const timer = clock.setTimer(
      ms,
      () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      },
      { ref: true },
    );
    signal?.addEventListener('abort', abort, { once: true });
  });
}
