import { setMaxListeners } from 'node:events';
import { RunCancelledError, type CancelReason, type Lease, type LeaseManager } from '@leasehold/core';
import { Election } from './election.ts';
import type { Engine } from './engine.ts';
import type { LeaseSettings } from './options.ts';
import { pause, settlesWithin } from './pause.ts';
import { Term, type TermEnd } from './term.ts';
import { asError } from './thrown.ts';

/** Between a term that BullMQ ended and the next one. */
const FAILED_PAUSE_MS = 1000;
/** How long `close` waits for BullMQ to come to rest, whose store may be out of reach. */
const REST_MS = 2000;

/** Told of the terms. Must not throw. */
export interface TermObserver {
  elected(lease: Lease): void;
  steppedDown(lease: Lease, reason: TermEnd): void;
  /** Something failed, and nobody else hears of it. */
  failed(error: Error): void;
}

/**
 * A worker that takes jobs only while it is in office: of all with the same resource, the one that is elected.
 *
 *     idle ──► standing ──► in office ──► stepping down ──► standing │ idle
 *
 * It stands from `start` to `close`, except while its user has paused it. The order of stepping down matters: no more jobs;
 * BullMQ is paused, which is not waited for, because it waits for the jobs; the jobs are told to end, and each is put back
 * when its processor has settled; then the lease is given back, unless it was lost or a processor still runs.
 */
export class Candidate {
  readonly #settings: LeaseSettings;
  readonly #resource: string;
  readonly #observer: TermObserver;
  readonly #engine: Engine;
  readonly #election: Election;
  readonly #closingController = new AbortController();
  #term: Term | undefined;
  /** Ends the wait for an election; after it, cancels the lease. */
  #controller = new AbortController();
  #standing: Promise<void> | undefined;
  /** From standing to the end of the term. */
  #round: Promise<void> | undefined;
  #isPaused = false;
  #closed: Promise<void> | undefined;
  /** The manager is closed. */
  #isOver = false;

  constructor(manager: LeaseManager, settings: LeaseSettings, observer: TermObserver, engine: Engine) {
    this.#settings = settings;
    this.#resource = settings.resource as string;
    this.#observer = observer;
    this.#engine = engine;
    // One for each job that is being put back.
    setMaxListeners(0, this.closing);
    this.#election = new Election(manager, this.#resource, settings.acquire, (error) => observer.failed(error));
  }

  /** While it is in office, and then until BullMQ has come to rest. */
  get term(): Term | undefined {
    return this.#term;
  }

  /** Aborted when it begins to close. */
  get closing(): AbortSignal {
    return this.#closingController.signal;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Whether it stands for election or is in office. */
  get isStanding(): boolean {
    return this.#standing !== undefined;
  }

  /** As BullMQ's `run`: resolves when it stands no more, at once while it is paused; rejects if it stands already. */
  async start(): Promise<void> {
    if (!this.#mayStand) return;
    if (this.#standing !== undefined) throw new Error('Worker is already running.');
    await (this.#standing = this.#stand());
  }

  /**
   * Stands no more; in office it lets its jobs end undisturbed, as BullMQ's pause does, and gives its lease back. Resolves when
   * it is done. There is no limit, because nobody expects a pause to end work; `close`, `revoke` and `maxHold` do.
   */
  async pause(): Promise<void> {
    this.#isPaused = true;
    this.#withdraw('caller', new Error('the worker was paused'));
    await this.#round;
    // One that never was in office: BullMQ is told, so that all that asks it gets the same answer.
    if (this.#isPaused && !this.closing.aborted) await this.#engine.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#mayStand) this.#standing ??= this.#stand();
  }

  /**
   * Stands no more. Jobs go on undisturbed for `grace` and are told to end then; resolves when all is given back. Forced, the
   * jobs are told at once, and those that do not end at once are left behind.
   */
  close(force: boolean): Promise<void> {
    return (this.#closed ??= this.#close(force));
  }

  /** A processor of the term did not end although it was told to, and is left behind: the lease is left to run out. */
  abandon(term: Term): void {
    const { lease } = term;
    lease.abandon();
    const cause = new Error('a processor did not end when it was told to');
    this.#stepDown(term, new RunCancelledError(this.#resource, 'caller', lease.fencingToken, cause), true);
  }

  get #mayStand(): boolean {
    return !this.#isPaused && !this.closing.aborted && !this.#isOver;
  }

  async #stand(): Promise<void> {
    while (this.#mayStand) await (this.#round = this.#standOnce());
    this.#standing = undefined;
  }

  async #standOnce(): Promise<void> {
    const { signal } = (this.#controller = new AbortController());
    const elected = await this.#election.next(signal, (lease) => this.#serve(lease));
    if (elected === undefined) {
      if (!signal.aborted) this.#isOver = true;
      return;
    }
    const term = this.#term as Term;
    await term.whenQuiet;
    // A processor that was left behind may never settle.
    if (term.isSettled) await elected.ended;
    await term.rest;
    this.#term = undefined;
    if (term.hasFailed) await pause(FAILED_PAUSE_MS, this.closing);
  }

  /** Called inside the run of the lease; what it starts, down to the processors, belongs to that. */
  #serve(lease: Lease): Promise<void> {
    const term = (this.#term = new Term(lease));
    const { signal } = lease;
    const end = (): void => this.#stepDown(term, signal.reason as TermEnd, true);
    if (signal.aborted) {
      end();
    } else {
      signal.addEventListener('abort', end, { once: true });
      this.#observer.elected(lease);
      // Whoever heard of it may have paused the worker.
      if (term.end === undefined) this.#begin(term);
    }
    return term.whenSettled;
  }

  #begin(term: Term): void {
    const running = this.#engine.isPaused() ? this.#engine.resume() : this.#engine.run();
    term.rest = running.then(
      () => this.#stopped(term),
      (error: unknown) => this.#stopped(term, asError(error)),
    );
  }

  /** BullMQ fetches no more. By itself it does so only if it cannot start. */
  #stopped(term: Term, error?: Error): void {
    if (error !== undefined) this.#observer.failed(error);
    if (term.end !== undefined) return;
    term.hasFailed = true;
    const cause = error ?? new Error('BullMQ stopped by itself');
    this.#stepDown(term, new RunCancelledError(this.#resource, 'caller', term.lease.fencingToken, cause), true);
  }

  /** Nothing in here is awaited: it all happens before the next job could begin. */
  #stepDown(term: Term, reason: TermEnd, abort: boolean): void {
    const isFirst = term.close(reason);
    if (isFirst && term.rest !== undefined) {
      const paused = this.#engine.pause().catch((error: unknown) => this.#observer.failed(asError(error)));
      term.rest = Promise.all([term.rest, paused]);
    }
    if (abort) term.abort(reason);
    if (isFirst) this.#observer.steppedDown(term.lease, reason);
  }

  #withdraw(why: CancelReason, cause?: Error): void {
    const term = this.#term;
    const reason = new RunCancelledError(this.#resource, why, term?.lease.fencingToken, cause);
    if (term === undefined) this.#controller.abort(reason);
    else this.#stepDown(term, reason, false);
  }

  async #close(force: boolean): Promise<void> {
    this.#closingController.abort();
    this.#withdraw('shutdown');
    const term = this.#term;
    if (term?.end !== undefined) {
      const graceMs = force ? 0 : this.#settings.graceMs;
      if (!(await settlesWithin(term.whenQuiet, graceMs))) {
        term.abort(term.end);
        // For those who look at the signal of the lease.
        this.#controller.abort(term.end);
        if (force && !(await settlesWithin(term.whenQuiet, 0))) term.giveUp();
      }
      await term.whenQuiet;
    }
    // BullMQ must have come to rest before it is closed, or its pause opens a connection afterwards.
    await settlesWithin(Promise.resolve(this.#round), REST_MS);
    await this.#election.over();
  }
}
