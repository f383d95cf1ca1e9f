import type { Clock } from '../clock.ts';
import type { OwnerVitals } from '../owner.ts';
import type { LeaseStore } from '../store/store.ts';
import { Pulse, type Beat } from './pulse.ts';
import { CLOCKS_DISAGREE_MS, type OwnerClock, type Stamp } from './term.ts';

/** Written again after so long, whatever was measured: what is written goes to replicas and into the append-only file, too. */
const REWRITE_MS = 600_000;

/** A worst that is larger by this part, and by more than a beat, is worth writing before: a write costs a third of an extend. */
const GROWTH = 0.25;
const GROWTH_OF_RATIO = 0.1;
const OFFSET_CHANGE_MS = 100;

/** Half the round trip bounds the error of an offset. One that is less exact is not believed. */
const MAX_OFFSET_ERROR_MS = 250;
/** A better offset is kept for so long. */
const OFFSET_AGE_MS = 60_000;
/** One that is older is not told any more: the clock may have been set since, and nobody watched. */
const OFFSET_LASTS_MS = 600_000;

type Measured = { -readonly [Name in keyof OwnerVitals]: OwnerVitals[Name] };

/** When a request left, and how long the event loop had stood still by then. */
export interface Sending extends Stamp {
  readonly pausedMs: number;
}

/**
 * What a process measures of itself for the leases of one store: why it might lose one. See `OwnerVitals` for what each
 * figure is. Measured while leases are held, by one timer for all of them and by what is read for extensions anyway.
 */
export class Vitals {
  /** Told of each standstill of the process that is longer than a beat, in milliseconds. Must not throw. */
  readonly onStandstill: Set<(forMs: number) => void> = new Set();
  readonly #store: Pick<LeaseStore, 'server'>;
  readonly #clock: Clock;
  readonly #ownerClock: OwnerClock;
  readonly #pulse: Pulse;
  readonly #worst: Measured = {
    worstPauseMs: 0,
    worstClockStepMs: 0,
    worstSuspendMs: 0,
    worstRoundTripMs: 0,
    worstExtensionRatio: 0,
    failedExtensions: 0,
    clockOffsetMs: null,
    serverRunId: '',
    measuredAt: '',
  };
  #offsetErrorMs = Infinity;
  #offsetAtMs = -Infinity;
  #edition: OwnerVitals;
  #editionAtMs = -Infinity;
  #number = 0;

  constructor(store: Pick<LeaseStore, 'server'>, clock: Clock, ownerClock: OwnerClock, isHolding: () => boolean) {
    this.#store = store;
    this.#clock = clock;
    this.#ownerClock = ownerClock;
    this.#pulse = new Pulse(clock, ownerClock, isHolding, (beat) => this.#onBeat(beat));
    this.#edition = this.now();
  }

  /** A lease is held from now on. */
  watch(ttlMs: number): void {
    this.#pulse.start(ttlMs);
  }

  stop(): void {
    this.#pulse.stop();
  }

  now(): OwnerVitals {
    this.#pulse.catchUp();
    const serverRunId = this.#store.server?.runId ?? '';
    return {
      ...this.#worst,
      clockOffsetMs: this.#offsetNow(),
      serverRunId,
      measuredAt: new Date(this.#clock.wallMs()).toISOString(),
    };
  }

  /**
   * What records are to say, and its number: a new one when it has changed noticeably, or is older than ten minutes. So
   * that each lease is written to seldom, and all of them with the same text.
   */
  edition(): { readonly number: number; readonly vitals: OwnerVitals } {
    this.#pulse.catchUp();
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#editionAtMs >= REWRITE_MS || this.#isNews()) {
      this.#edition = this.now();
      this.#editionAtMs = nowMs;
      this.#number++;
    }
    return { number: this.#number, vitals: this.#edition };
  }

  /** To be called right before a request leaves. */
  sending(): Sending {
    return { ...this.#ownerClock.stamp(), pausedMs: this.#pulse.pausedMs() };
  }

  /** The request was answered now; `storeUs` is the store's clock in between, if the answer said so. */
  answered(sending: Sending, storeUs: number | undefined): void {
    const nowMs = this.#clock.monotonicMs();
    const tripMs = nowMs - sending.monotonicMs;
    // What this process slept through is a pause, and counts as such.
    const awakeMs = Math.max(0, tripMs - (this.#pulse.pausedMs() - sending.pausedMs));
    if (awakeMs > this.#worst.worstRoundTripMs) this.#worst.worstRoundTripMs = awakeMs;
    // Not if the wall clock was set meanwhile: it would be an offset that there is no more.
    const isWhole = Math.abs(this.#clock.wallMs() - sending.wallMs - tripMs) < CLOCKS_DISAGREE_MS;
    if (storeUs !== undefined && isWhole) {
      this.#offset(sending.wallMs + tripMs / 2 - storeUs / 1000, tripMs / 2, nowMs);
    }
  }

  /** A lease was confirmed after so long, as a part of its ttl. */
  confirmed(ratio: number): void {
    if (ratio > this.#worst.worstExtensionRatio) this.#worst.worstExtensionRatio = ratio;
  }

  failed(): void {
    this.#worst.failedExtensions++;
  }

  #offsetNow(): number | null {
    return this.#clock.monotonicMs() - this.#offsetAtMs < OFFSET_LASTS_MS ? this.#worst.clockOffsetMs : null;
  }

  #offset(offsetMs: number, errorMs: number, nowMs: number): void {
    // A store of somebody else's may tell anything.
    if (errorMs > MAX_OFFSET_ERROR_MS || !Number.isFinite(offsetMs)) return;
    if (errorMs > this.#offsetErrorMs && nowMs - this.#offsetAtMs < OFFSET_AGE_MS) return;
    this.#worst.clockOffsetMs = offsetMs;
    this.#offsetErrorMs = errorMs;
    this.#offsetAtMs = nowMs;
  }

  #onBeat({ pauseMs, stepMs, suspendedMs }: Beat): void {
    const worst = this.#worst;
    if (pauseMs > worst.worstPauseMs) worst.worstPauseMs = pauseMs;
    if (suspendedMs > worst.worstSuspendMs) worst.worstSuspendMs = suspendedMs;
    if (stepMs !== 0) {
      worst.worstClockStepMs = Math.max(worst.worstClockStepMs, Math.abs(stepMs));
      // What was known of the offset is over.
      this.#offsetErrorMs = Infinity;
    }
    const stillMs = Math.max(pauseMs, suspendedMs);
    if (stillMs > this.#pulse.periodMs) for (const tell of this.onStandstill) tell(stillMs);
  }

  #isNews(): boolean {
    const now = this.#worst;
    const before = this.#edition;
    const beatMs = this.#pulse.periodMs;
    const offsetMs = this.#offsetNow();
    return (
      hasGrown(before.worstPauseMs, now.worstPauseMs, beatMs) ||
      hasGrown(before.worstClockStepMs, now.worstClockStepMs, beatMs) ||
      hasGrown(before.worstSuspendMs, now.worstSuspendMs, beatMs) ||
      hasGrown(before.worstRoundTripMs, now.worstRoundTripMs, beatMs) ||
      now.worstExtensionRatio > before.worstExtensionRatio + GROWTH_OF_RATIO ||
      now.failedExtensions > before.failedExtensions * (1 + GROWTH) ||
      (before.clockOffsetMs === null || offsetMs === null
        ? before.clockOffsetMs !== offsetMs
        : Math.abs(offsetMs - before.clockOffsetMs) >= OFFSET_CHANGE_MS) ||
      (this.#store.server?.runId ?? '') !== before.serverRunId
    );
  }
}

function hasGrown(before: number, now: number, beatMs: number): boolean {
  return now > before + Math.max(beatMs, before * GROWTH);
}
