import type { Clock } from '../clock.ts';
import type { LeaseholdError } from '../errors.ts';
import type { ExtendItem, ExtendVerdict, LeaseStore } from '../store/store.ts';
import { Wheel } from '../wheel.ts';
import { failureOf } from './failure.ts';
import type { OwnerRecord } from './owner-record.ts';
import type { Tenure } from './tenure.ts';
import { timedBatch } from './timed.ts';
import { clamp, type OwnerClock } from './term.ts';
import { Vitals, type Sending } from './vitals.ts';

// Leases due within this part of their refresh interval go along: fewer calls, and processes drift apart.
const AHEAD = 0.1;
const GRAIN_MS = 4;

/**
 * Keeps all leases of one store: extends them, and announces their loss. One timer for all of them, none set or cleared
 * for a run that ends before its first refresh. It decides nothing about time: that a window has closed is computed by
 * the tenure, here only at the instant when nobody else may ask.
 */
export class Keeper {
  /** Of one call. A script for 500 leases holds Redis for about a millisecond, and costs a twentieth of 500 single calls. */
  static batch = 500;
  readonly #store: LeaseStore;
  readonly #clock: Clock;
  readonly #ownerClock: OwnerClock;
  readonly vitals: Vitals;
  readonly #wheel: Wheel<Tenure>;
  readonly #unanswered = new Set<Tenure>();

  constructor(store: LeaseStore, clock: Clock, ownerClock: OwnerClock) {
    this.#store = store;
    this.#clock = clock;
    this.#ownerClock = ownerClock;
    this.#wheel = new Wheel(clock, GRAIN_MS, () => this.#turn());
    this.vitals = new Vitals(store, clock, ownerClock, () => this.#wheel.find(() => true) !== undefined);
  }

  keep(tenure: Tenure): void {
    this.#schedule(tenure);
    this.vitals.watch(tenure.timing.ttlMs);
  }

  /** Whatever is still said of it counts for nothing. */
  drop(tenure: Tenure): void {
    tenure.extending = false;
    this.#wheel.remove(tenure);
    this.#unanswered.delete(tenure);
  }

  /** The store may have something to say about this lease: ask now. */
  hurry(leaseId: string): void {
    const tenure = this.#wheel.find((each) => each.grant.leaseId === leaseId);
    if (tenure === undefined || tenure.extending || tenure.final || !tenure.isHeld()) return;
    this.#wheel.remove(tenure);
    this.#extendAll([tenure]);
  }

  /** The store can be reached again: whoever has no answer need not wait for the next pause to end. */
  reconnected(): void {
    const waiting = [...this.#unanswered].filter((tenure) => tenure.live && !tenure.extending && !tenure.final);
    for (const tenure of waiting) this.#wheel.remove(tenure);
    this.#extendAll(waiting);
  }

  #schedule(tenure: Tenure): void {
    if (!tenure.live) return;
    const next = tenure.extending || tenure.final ? Infinity : tenure.refreshMs - GRAIN_MS;
    this.#wheel.put(tenure, Math.min(next, tenure.closesMs, tenure.final ? Infinity : tenure.endsMs));
  }

  #turn(): void {
    const due = this.#wheel.takeDue();
    const aheadMs = due.reduce((ahead, { timing }) => Math.max(ahead, timing.refreshMs * AHEAD), 0);
    if (aheadMs > 0) due.push(...this.#wheel.takeDue(aheadMs * (1 - Math.random() / 2)));

    const now = this.#ownerClock.stamp();
    const extend: Tenure[] = [];
    for (const tenure of due) {
      if (!tenure.isHeld(now)) {
        this.#unanswered.delete(tenure);
        continue;
      }
      if (now.monotonicMs >= tenure.endsMs) tenure.cancel('max-hold');
      if (tenure.extending || tenure.final) this.#schedule(tenure);
      else extend.push(tenure);
    }
    this.#extendAll(extend);
  }

  #extendAll(tenures: Tenure[]): void {
    for (let from = 0; from < tenures.length; from += Keeper.batch) {
      const batch = tenures.slice(from, from + Keeper.batch);
      // Watched before the call goes out: the window closes whether the store settles or not.
      for (const tenure of batch) {
        tenure.extending = true;
        this.#schedule(tenure);
      }
      if (from === 0) void this.#extend(batch);
      // Encoding hundreds of leases takes its time; let others have the loop in between.
      else setImmediate(() => void this.#extend(batch));
    }
  }

  async #extend(due: readonly Tenure[]): Promise<void> {
    // A later batch leaves a turn of the loop later: nothing is extended once it was dropped.
    const batch = due.filter(({ live, extending }) => live && extending);
    if (batch.length === 0) return;
    const items: ExtendItem[] = [];
    let timeoutMs = Infinity;
    let owner: OwnerRecord | undefined;
    let json = '';
    for (const { resource, grant, timing, ownerRecord, ownerJson: written } of batch) {
      // Nearly always the same for all of them.
      if (ownerRecord !== owner) {
        owner = ownerRecord;
        json = ownerRecord.current.json;
      }
      const ownerJson = json === written ? undefined : json;
      items.push({ resource, leaseId: grant.leaseId, ttlMs: timing.ttlMs, ownerJson });
      timeoutMs = Math.min(timeoutMs, timing.callTimeoutMs);
    }
    let sending: Sending | undefined;
    let storeUs: number | undefined;
    let verdicts: readonly ExtendVerdict[] = [];
    let failure: LeaseholdError | null = null;
    const timed = timedBatch(batch);
    try {
      verdicts = await this.#store.extend(items, {
        timeoutMs,
        sent: () => (sending = this.vitals.sending()),
        told: (us) => (storeUs = us),
      });
      if (sending !== undefined) this.vitals.answered(sending, storeUs);
    } catch (error) {
      failure = failureOf(error);
    }
    timed?.(verdicts);
    const now = this.#ownerClock.stamp();
    for (let index = 0; index < batch.length; index++) {
      const tenure = batch[index] as Tenure;
      const wasDropped = !tenure.extending;
      tenure.extending = false;
      // What is said of a lease that was lost, released or replaced meanwhile, or whose window had closed when it was said, is
      // not believed. Listeners may block after that: a confirmation counts from when it was asked for.
      if (wasDropped || !tenure.isHeld(now)) continue;
      const verdict = sending === undefined ? undefined : verdicts[index];
      if (verdict?.verdict === 'extended') tenure.ownerJson = items[index]?.ownerJson ?? tenure.ownerJson;
      this.#judge(tenure, verdict, sending, failure);
    }
  }

  #judge(
    tenure: Tenure,
    verdict: ExtendVerdict | undefined,
    sending: Sending | undefined,
    failure: LeaseholdError | null,
  ): void {
    switch (verdict?.verdict) {
      case 'extended':
        this.vitals.confirmed(tenure.confirm(sending as Sending, verdict.remainingMs) / tenure.timing.ttlMs);
        this.#unanswered.delete(tenure);
        tenure.observer.extended(tenure, verdict.remainingMs);
        this.#schedule(tenure);
        return;
      case 'revoked':
        this.#unanswered.delete(tenure);
        tenure.cancel('revoked');
        this.#schedule(tenure);
        return;
      case 'lost':
        tenure.lose(verdict.reason, 'by the word of the store');
        return;
      case 'foreign':
        tenure.lose('missing', `${verdict.key} holds something else`);
        return;
      case 'unknown':
      case undefined:
        this.#unanswered.add(tenure);
        tenure.unanswered = true;
        this.vitals.failed();
        tenure.observer.extendFailed(tenure, failure);
        this.#retry(tenure);
    }
  }

  #retry(tenure: Tenure): void {
    const pause = clamp(tenure.timing.refreshMs / 20, 5, 500) * (0.5 + Math.random() / 2);
    this.#wheel.put(tenure, Math.min(this.#clock.monotonicMs() + pause, tenure.closesMs));
  }
}
