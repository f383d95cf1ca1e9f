import { onAbort } from '../abort-listeners.ts';
import {
  LeaseholdError,
  ManagerClosedError,
  RunCancelledError,
  StoreUnavailableError,
  TokenOutOfRangeError,
} from '../errors.ts';
import type { AcquireSettings } from '../options.ts';
import type { AcquireReply, AcquireRequest } from '../store/store.ts';
import type { ClaimedTick } from '../store/tick-request.ts';
import type { Context } from './context.ts';
import { failureOf, mayHaveRun } from './failure.ts';
import { newLeaseId } from './lease-id.ts';
import type { Refusal } from './refusal.ts';
import { Sleeper } from './sleeper.ts';
import { newSpare, type Spare } from './spare.ts';
import type { Tenure } from './tenure.ts';
import { clamp, elapsedMs, trustedMs, type Stamp } from './term.ts';
import { timed } from './timed.ts';
import { withdraw } from './withdraw.ts';
import { within } from './within.ts';

// Granted after its own window: the process was stopped or blocked in between. Once is bad luck, three times is a machine
// that cannot hold a lease of this length.
const LATE_GRANTS = 3;
// Between two questions to a store that does not answer.
const MIN_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface Granted {
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly remainingMs: number;
  readonly stamp: Stamp;
  /** An earlier call of this leaseId has no answer: its packet may still arrive when the lease is over. */
  readonly dirty: boolean;
  /** The tick that it has claimed, or that came over with a ticket. */
  readonly tick: ClaimedTick | null;
  /** What was written of the owner. */
  readonly ownerJson: string;
  /** If it may linger. */
  readonly spare?: Spare | undefined;
}

type Answer = AcquireReply | { readonly kind: 'failed'; readonly error: LeaseholdError };

/**
 * One acquisition at the store:
 *
 *     asking ──► granted │ refused │ failed
 *       ▲ │ queued, or no answer (while it may wait)
 *       │ ▼
 *     asleep, until its turn, a refresh, a message, a reconnection, the deadline, the caller's signal or the manager's close
 *
 * The same leaseId is asked for again and again, and so keeps its place. A leaseId that ends without a grant is withdrawn:
 * with a tombstone if a call of it is unanswered, because its packet may still arrive.
 */
export class Acquisition {
  readonly #context: Context;
  readonly #resource: string;
  readonly #settings: AcquireSettings;
  readonly #replaced: Tenure | undefined;
  readonly #waitRefreshMs: number;
  #deadlineMs = 0;
  #leaseId = newLeaseId();
  #spare: Spare | undefined;
  /** The store has a place or a grant for this leaseId. */
  #known = false;
  /** A call of this leaseId has no answer. */
  #dirty = false;
  #stamp: Stamp | undefined;
  /** As it was last sent. */
  #ownerJson = '';
  /** The wait is over. */
  #isOver = false;
  /** The first question has been answered, or has failed. */
  #wasAsked = false;
  #interrupted: () => void = () => {};

  /** In place of `replaced`, if given, in one step while that is held. */
  constructor(context: Context, resource: string, settings: AcquireSettings, replaced: Tenure | undefined) {
    this.#context = context;
    this.#resource = resource;
    this.#settings = settings;
    this.#replaced = replaced;
    this.#waitRefreshMs = Math.round(clamp(settings.timing.ttlMs / 3, 250, 10_000));
    if (context.settings.lingerMs > 0 && settings.tick === undefined) this.#spare = newSpare();
    if (settings.waitMs > 0) this.#deadlineMs = context.clock.monotonicMs() + settings.waitMs;
  }

  run(): Promise<Granted | Refusal> {
    const { asked } = this.#context;
    if (this.#spare === undefined) return this.#run();
    asked.set(this.#leaseId, this.#spare);
    return this.#run().finally(() => asked.delete(this.#leaseId));
  }

  #run(): Promise<Granted | Refusal> {
    const { settings, store, engine } = this.#context;
    const { waitMs, signal, park } = this.#settings;
    const mustConnect = settings.quarantine && store.server === undefined;
    const mustOpen = this.#spare !== undefined && !engine.mailbox.isOpen;
    return mustConnect || mustOpen || waitMs > 0 || park || signal !== undefined
      ? this.#runPrepared()
      : this.#askUntilAnswered();
  }

  async #runPrepared(): Promise<Granted | Refusal> {
    const { settings, store, clock, engine } = this.#context;
    const { waitMs, signal, timing, park } = this.#settings;
    if (settings.quarantine && store.server === undefined) await store.connect();
    // Who asks to be told listens first: the word may come at once. Not for longer than a call: a store that is out of reach
    // is for the call to say.
    const mustOpen = (waitMs > 0 || park || this.#spare !== undefined) && !engine.mailbox.isOpen;
    const forMs = waitMs > 0 ? Math.min(timing.callTimeoutMs, waitMs) : timing.callTimeoutMs;
    if (waitMs === 0 && signal === undefined) {
      if (mustOpen) await within(clock, engine.mailbox.open(), forMs);
      return this.#askUntilAnswered();
    }
    const sleeper = new Sleeper(clock);
    const stopListening = this.#listenForEnd(sleeper);
    try {
      if (mustOpen) await this.#interruptible(within(clock, engine.mailbox.open(), forMs));
      return await this.#askUntilAnswered(sleeper);
    } finally {
      stopListening();
      sleeper.end();
      engine.waiters.delete(this.#leaseId);
    }
  }

  /** Without a sleeper nothing ends it from outside: its one call has a deadline. */
  async #askUntilAnswered(sleeper?: Sleeper): Promise<Granted | Refusal> {
    const { waitMs } = this.#settings;
    let refusal: Refusal | undefined;
    let failure: LeaseholdError | undefined;
    let pauseMs = MIN_PAUSE_MS;
    let late = 0;
    for (;;) {
      this.#checkEnded();
      // However short the wait, the store is asked once.
      if (this.#isOver && this.#wasAsked) return this.#giveUp(refusal, failure);
      sleeper?.forget();
      if (waitMs > 0 && sleeper !== undefined) this.#context.engine.waiters.set(this.#leaseId, sleeper);
      const answer = await (sleeper === undefined ? this.#ask() : this.#interruptible(this.#ask()));
      this.#wasAsked = true;
      if (answer === undefined) this.#checkEnded();
      else if (answer.kind === 'failed') {
        if (waitMs === 0 || !LeaseholdError.is(answer.error, 'STORE_UNAVAILABLE')) {
          this.#withdraw();
          throw answer.error;
        }
        failure = answer.error;
      } else {
        failure = undefined;
        pauseMs = MIN_PAUSE_MS;
      }

      switch (answer?.kind) {
        case 'granted': {
          const granted = this.#believe(answer);
          this.#checkEnded();
          if (granted !== undefined) return granted;
          if (++late === LATE_GRANTS) throw this.#tooLate();
          this.#startAgain();
          continue;
        }
        case 'spent':
        case 'cancelled':
          // Granted once, and the answer did not come in time; or withdrawn, by a proxy that repeats what it has seen.
          if (++late === LATE_GRANTS) throw this.#tooLate();
          this.#known = false;
          this.#startAgain();
          continue;
        case 'tick':
          this.#withdraw();
          return { reason: answer.reason, holder: null, remainingMs: answer.remainingMs, aheadMs: answer.aheadMs };
        case 'out-of-range':
          this.#withdraw();
          throw new TokenOutOfRangeError(
            this.#resource,
            answer.fencingToken,
            `the store ${this.#context.store.description}`,
          );
        case 'busy':
        case 'queued':
          refusal = {
            reason: answer.reason,
            holder: answer.holder,
            remainingMs: answer.remainingMs,
            aheadMs: null,
          };
          if (waitMs === 0) return refusal;
          break;
        case 'failed':
        case undefined:
          break;
      }

      const leftMs = this.#deadlineMs - this.#context.clock.monotonicMs();
      if (this.#isOver || leftMs <= 0) return this.#giveUp(refusal, failure);
      const pause = answer === undefined ? 0 : this.#pause(answer, pauseMs);
      if (failure !== undefined) pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS);
      await sleeper?.sleep(Math.min(pause, leftMs));
    }
  }

  /** At the end of the wait: the last answer counts, busy or none. */
  #giveUp(refusal: Refusal | undefined, failure: LeaseholdError | undefined): Refusal {
    this.#withdraw();
    if (failure !== undefined) throw failure;
    if (refusal !== undefined) return refusal;
    throw new StoreUnavailableError(`${this.#context.store.description} gave no answer within wait`, {
      resource: this.#resource,
      mayHaveRun: this.#dirty,
    });
  }

  /**
   * What the work comes to, or undefined if something ends the acquisition before. A promise for each question, because
   * one that lives as long as the wait would keep something of every question that was raced against it.
   */
  #interruptible<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#interrupted = () => resolve(undefined);
      work.then(resolve, reject);
    });
  }

  /** How long until asking again can help, if nobody says otherwise. */
  #pause(answer: Answer, pauseMs: number): number {
    if (answer.kind === 'failed') return pauseMs * (0.5 + Math.random() / 2);
    if (answer.kind !== 'busy' && answer.kind !== 'queued') return 0;
    // Only the head and the one behind it have anything to do with the end of a turn.
    const isFarBehind = answer.kind === 'queued' && answer.reason === 'turn' && answer.position > 1;
    if (isFarBehind) return this.#waitRefreshMs;
    return Math.min(answer.remainingMs + 1, this.#waitRefreshMs);
  }

  async #ask(): Promise<Answer> {
    const { timing } = this.#settings;
    const wasDirty = this.#dirty;
    this.#dirty = true;
    try {
      const { store, engine, announcer } = this.#context;
      const answer = await timed(announcer, 'acquire', () =>
        store.acquire(this.#request(), {
          timeoutMs: timing.callTimeoutMs,
          sent: () => (this.#stamp = engine.ownerClock.stamp()),
        }),
      );
      // An earlier call of the same leaseId may still be without an answer.
      this.#dirty = wasDirty;
      if (answer.kind === 'granted' || answer.kind === 'queued') this.#known = true;
      return answer;
    } catch (thrown) {
      const error = failureOf(thrown, this.#resource);
      this.#dirty = wasDirty || mayHaveRun(error);
      return { kind: 'failed', error };
    }
  }

  #request(): AcquireRequest {
    const { settings, ownerRecord, engine } = this.#context;
    const owner = ownerRecord.current;
    this.#ownerJson = owner.json;
    const { channel } = engine.mailbox;
    const { timing, waitMs, park, tick, retentionMs } = this.#settings;
    return {
      resource: this.#resource,
      leaseId: this.#leaseId,
      ttlMs: timing.ttlMs,
      mode: waitMs > 0 ? 'wait' : park ? 'park' : 'try',
      owner,
      channel,
      history: settings.history,
      floor: this.#replaced?.floor ?? 0,
      replaces: this.#replaced?.grant.leaseId ?? '',
      waitRefreshMs: this.#waitRefreshMs,
      quarantineMs: this.#quarantineMs(),
      tick,
      retentionMs,
      // Who cannot be told that others want it keeps nothing from them.
      spareTokens: channel === '' ? undefined : this.#spare?.tokens,
    };
  }

  /** What a server lost in a restart may be trusted by its owner for up to a ttl. */
  #quarantineMs(): number {
    const { store, settings } = this.#context;
    const { server } = store;
    if (server === undefined || !(settings.quarantine || server.restarted)) return 0;
    return Math.max(0, Math.ceil(this.#settings.timing.ttlMs - server.ageMs));
  }

  /** A grant, unless its window had closed before we heard of it. */
  #believe(reply: Extract<AcquireReply, { kind: 'granted' }>): Granted | undefined {
    const { timing } = this.#settings;
    const { ownerClock } = this.#context.engine;
    const stamp = this.#stamp ?? ownerClock.stamp();
    const { fencingToken, remainingMs, tick, spareTokens = 0 } = reply;
    if (trustedMs(Math.min(timing.ttlMs, remainingMs), timing) <= elapsedMs(ownerClock.since(stamp))) return undefined;
    return {
      leaseId: this.#leaseId,
      fencingToken,
      remainingMs,
      stamp,
      dirty: this.#dirty,
      tick,
      // Which of several requests the store has carried out is not known: the first extension says it again.
      ownerJson: this.#dirty ? '' : this.#ownerJson,
      spare: spareTokens > 0 ? this.#spare : undefined,
    };
  }

  #startAgain(): void {
    const { engine, asked } = this.#context;
    engine.waiters.delete(this.#leaseId);
    asked.delete(this.#leaseId);
    this.#withdraw();
    this.#leaseId = newLeaseId();
    if (this.#spare !== undefined) asked.set(this.#leaseId, (this.#spare = newSpare()));
    this.#known = false;
    this.#dirty = false;
  }

  #withdraw(): void {
    if (!this.#known && !this.#dirty) return;
    const { timing, tick, retentionMs } = this.#settings;
    const what = { resource: this.#resource, leaseId: this.#leaseId, job: tick?.job, dirty: this.#dirty, retentionMs };
    withdraw(this.#context, what, timing);
  }

  #tooLate(): StoreUnavailableError {
    this.#withdraw();
    return new StoreUnavailableError(
      `answers arrive only after the lease has run out (${LATE_GRANTS} times; ttl ${this.#settings.timing.ttlMs} ms); look for a blocked event loop or a slow network, or raise ttl`,
      { resource: this.#resource, mayHaveRun: false },
    );
  }

  /** Throws if the caller's signal or the manager's close has ended it. */
  #checkEnded(): void {
    const { signal, waitMs } = this.#settings;
    if (signal?.aborted !== true && !this.#context.closing) return;
    this.#withdraw();
    if (signal?.aborted === true) throw new RunCancelledError(this.#resource, 'caller', undefined, signal.reason);
    throw waitMs > 0 ? new RunCancelledError(this.#resource, 'shutdown') : new ManagerClosedError(this.#resource);
  }

  /** The caller's signal, the manager's close, the end of the wait: whatever is awaited then is left. */
  #listenForEnd(sleeper: Sleeper): () => void {
    const { clock, waiting } = this.#context;
    const { signal, waitMs } = this.#settings;
    const interrupt = (): void => {
      this.#interrupted();
      sleeper.wake();
    };
    const end = (): void => {
      this.#isOver = true;
      // The first answer is waited for: it has a deadline of its own.
      if (this.#wasAsked) interrupt();
    };
    // What no timer can hold is looked at whenever the waiter wakes up.
    const timer = waitMs > 0 && waitMs < MAX_TIMER_MS ? clock.setTimer(waitMs, end, { ref: true }) : undefined;
    waiting.add(interrupt);
    const stopListening = signal === undefined ? undefined : onAbort(signal, interrupt);
    return () => {
      timer?.clear();
      waiting.delete(interrupt);
      stopListening?.();
    };
  }
}
