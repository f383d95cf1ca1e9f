import type { Lease, LeaseLostError, RunCancelledError } from '@leasehold/core';

/** Why a term takes no more jobs. */
export type TermEnd = LeaseLostError | RunCancelledError;

/** One job under a term. */
export interface Seat {
  /** Asks its processor to end. Only the first reason counts. */
  cancel(reason: Error): void;
  /** Waits for its processor no longer. */
  giveUp(): void;
}

/**
 * One term of a worker in office: the lease, and the jobs under it.
 *
 *     open ──► ended: takes no more jobs ──► quiet: none in hand ──► settled: no processor of it runs
 *
 * Whether it is open is computed from the clocks at each question. A processor that was left behind keeps the term from being
 * settled, and its lease from being released; it does not keep it from being quiet.
 */
export class Term {
  readonly lease: Lease;
  /** Resolves when BullMQ has come to rest after the end of the term. Never rejects. */
  rest: Promise<unknown> | undefined;
  /** BullMQ stopped by itself. */
  hasFailed = false;
  readonly whenQuiet: Promise<void>;
  readonly whenSettled: Promise<void>;
  #end: TermEnd | undefined;
  #becomeQuiet!: () => void;
  #becomeSettled!: () => void;
  readonly #seats = new Set<Seat>();
  /** Processors left behind. */
  #leftBehind = 0;

  constructor(lease: Lease) {
    this.lease = lease;
    this.whenQuiet = new Promise((resolve) => (this.#becomeQuiet = resolve));
    this.whenSettled = new Promise((resolve) => (this.#becomeSettled = resolve));
  }

  /** Whether a job may begin at this instant. */
  get isOpen(): boolean {
    // In this order: the question itself may find the lease lost, and end the term.
    return this.lease.isHeld() && this.#end === undefined;
  }

  get end(): TermEnd | undefined {
    return this.#end;
  }

  get isSettled(): boolean {
    return this.#end !== undefined && this.#seats.size === 0 && this.#leftBehind === 0;
  }

  /** Takes no more jobs from now on. False if that was so before. */
  close(reason: TermEnd): boolean {
    if (this.#end !== undefined) return false;
    this.#end = reason;
    this.#check();
    return true;
  }

  enter(seat: Seat): void {
    this.#seats.add(seat);
  }

  leave(seat: Seat): void {
    this.#seats.delete(seat);
    this.#check();
  }

  /** A processor goes on although nobody waits for it; `settled` never rejects. */
  leaveBehind(settled: Promise<unknown>): void {
    this.#leftBehind++;
    void settled.then(() => {
      this.#leftBehind--;
      this.#check();
    });
  }

  abort(reason: Error): void {
    for (const seat of this.#seats) seat.cancel(reason);
  }

  giveUp(): void {
    for (const seat of this.#seats) seat.giveUp();
  }

  #check(): void {
    if (this.#end === undefined || this.#seats.size > 0) return;
    this.#becomeQuiet();
    if (this.#leftBehind === 0) this.#becomeSettled();
  }
}
