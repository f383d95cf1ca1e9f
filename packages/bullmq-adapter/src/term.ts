import type { Lease, LeaseLostError, RunCancelledError } from '@leasehold/core';

/** Why a term takes no more jobs. */
export type TermEnd = LeaseLostError | RunCancelledError;

/** One job in the hands of a worker in office. */
export interface Holder {
  /** Asks its processor to end. Only the first reason counts. */
  cancel(reason: Error): void;
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
  /** By job: between its start and what BullMQ is told of it. */
  readonly #jobs = new Map<string | undefined, Holder>();
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
    return this.#end !== undefined && this.#jobs.size === 0 && this.#leftBehind === 0;
  }

  /** Takes no more jobs from now on. False if that was so before. */
  close(reason: TermEnd): boolean {
    if (this.#end !== undefined) return false;
    this.#end = reason;
    this.#check();
    return true;
  }

  holderOf(jobId: string | undefined): Holder | undefined {
    return this.#jobs.get(jobId);
  }

  enter(jobId: string | undefined, holder: Holder): void {
    this.#jobs.set(jobId, holder);
  }

  /** With the promise of its processor, if that was left behind. */
  leave(jobId: string | undefined, leftBehind?: Promise<unknown>): void {
    if (leftBehind !== undefined) {
      this.#leftBehind++;
      const settled = (): void => {
        this.#leftBehind--;
        this.#check();
      };
      leftBehind.then(settled, settled);
    }
    this.#jobs.delete(jobId);
    this.#check();
  }

  abort(reason: Error): void {
    for (const holder of this.#jobs.values()) holder.cancel(reason);
  }

  #check(): void {
    if (this.#end === undefined || this.#jobs.size > 0) return;
    this.#becomeQuiet();
    if (this.#leftBehind === 0) this.#becomeSettled();
  }
}
