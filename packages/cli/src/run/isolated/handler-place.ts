import { LeaseholdError, NotStartedError, StaleTokenError } from '@leasehold/core';
import type { Logger } from 'pino';

import type { JobContext } from '../context.ts';
import { Deferred } from '../deferred.ts';
import type { LeaseWindow } from './lease-window.ts';
import { errorOf, plainOf, type FromHandler } from './messages.ts';
import type { Ending, Peer } from './peer.ts';

/** How long a handler may take to end once it was aborted. Less than a shutdown waits. */
const TERMINATE_AFTER_MS = 2000;

/** A thread or process with the handler of a job. Runs come one after the other. */
export class HandlerPlace {
  readonly #peer: Peer;
  #isOver = false;
  readonly #opened = new Deferred<void>();
  /** Whether the run that goes on was sent. */
  #hasBegun = false;
  #heard: ((message: FromHandler) => void) | undefined;
  #onEnded: ((ending: Ending) => void) | undefined;

  constructor(peer: Peer) {
    this.#peer = peer;
    // Told by the run that it ends; an idle one is not taken any more.
    this.#peer.onOver(() => (this.#isOver = true));
    this.#peer.listen((message) => {
      if (message.type === 'opened') this.#opened.resolve();
      else this.#heard?.(message);
    });
    void this.#peer.ended.then((ending) => this.#onEnded?.(ending));
    this.#peer.keep(false);
  }

  /** Whether it can take another run. */
  get isUsable(): boolean {
    return !this.#isOver;
  }

  async terminate(): Promise<void> {
    this.#isOver = true;
    await this.#peer.terminate();
  }

  /** Tells what the window says now. */
  share(window: LeaseWindow): void {
    if (!this.#peer.sharesMemory) this.#peer.send({ type: 'until', until: window.until });
  }

  /**
   * Settles as the handler does. Once the signal has aborted the handler has 2 s; then the place is terminated, and when nothing of it runs
   * any more this rejects with the signal's reason. Where the place is still being opened this rejects at once, with `NotStartedError` if the
   * lease is held, and the place is kept: nothing of the run was begun.
   */
  async run(context: JobContext, window: LeaseWindow): Promise<unknown> {
    const { signal, log } = context;
    let timer: NodeJS.Timeout | undefined;
    const abort = (): void => {
      if (!this.#hasBegun) return;
      this.#peer.send({ type: 'abort', reason: plainOf(signal.reason) });
      timer = setTimeout(() => {
        log.error({}, `handler ignores its signal; its ${this.#peer.kind} is terminated`);
        void this.terminate();
      }, TERMINATE_AFTER_MS);
    };
    this.#hasBegun = false;
    this.#peer.keep(true);
    try {
      signal.addEventListener('abort', abort);
      return await this.#outcome(context, window);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      this.#heard = undefined;
      this.#onEnded = undefined;
      this.#peer.keep(false);
    }
  }

  /** Not before it is open: from then on it hears in time how long its lease lasts, and that it is to end. */
  #begin({ lease, job, run }: JobContext, window: LeaseWindow): void {
    const { resource, grant, ttlMs } = lease;
    window.publish(lease.remainingMs());
    const source = this.#peer.sharesMemory ? window.buffer : window.until;
    this.#peer.send({ type: 'run', job, run, lease: { resource, grant, ttlMs, window: source } });
    this.#hasBegun = true;
  }

  #outcome(context: JobContext, window: LeaseWindow): Promise<unknown> {
    const { lease, signal, log } = context;
    return new Promise((resolve, reject: (error: Error) => void) => {
      this.#heard = (message) => {
        switch (message.type) {
          case 'log':
            relay(log, message.line);
            break;
          case 'refused': {
            const { resource, ...refusal } = message.refusal;
            lease.holding.refused(new StaleTokenError(resource, refusal));
            break;
          }
          case 'done':
            resolve(message.value);
            break;
          case 'failed':
            // What it gave up with is the reason that it was given.
            reject(isReason(message.error.code) && signal.aborted ? (signal.reason as Error) : errorOf(message.error));
            break;
          case 'opened':
        }
      };
      this.#onEnded = ({ fault, how }) => {
        reject(fault ?? (signal.aborted ? (signal.reason as Error) : new Error(how)));
      };
      const endEarly = (): void => {
        const reason = signal.reason as Error;
        const isHeld = LeaseholdError.of(reason)?.code === 'RUN_CANCELLED';
        reject(isHeld ? new NotStartedError(lease.resource, 'it was told to end first', reason) : reason);
      };
      if (signal.aborted) return endEarly();
      signal.addEventListener('abort', endEarly, { once: true });
      void this.#opened.promise.then(() => {
        if (signal.aborted) return;
        signal.removeEventListener('abort', endEarly);
        try {
          this.#begin(context, window);
        } catch (error) {
          // Of data that cannot be sent.
          reject(error as Error);
        }
      });
    });
  }
}

function isReason(code: string | undefined): boolean {
  return code === 'RUN_CANCELLED' || code === 'LEASE_LOST';
}

/** A line that was logged elsewhere, with the fields that lines of the run have here. */
function relay(log: Logger, line: string): void {
  const {
    level,
    time: _time,
    msg,
    ...fields
  } = JSON.parse(line) as {
    readonly level: number;
    readonly time: number;
    readonly msg?: string;
  };
  const name = log.levels.labels[level] as 'info' | undefined;
  log[name ?? 'info'](fields, msg ?? '');
}
