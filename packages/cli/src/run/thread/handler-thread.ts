import { Worker } from 'node:worker_threads';

import { StaleTokenError } from '@leasehold/core';
import type { Logger } from 'pino';

import type { JobContext } from '../context.ts';
import type { LeaseWindow } from './lease-window.ts';
import { errorOf, plainOf, type FromThread, type RunMessage, type ThreadData, type ToThread } from './messages.ts';

/** How long a handler may take to end once it was aborted. Less than a shutdown waits. */
const TERMINATE_AFTER_MS = 2000;

const MAIN = new URL(import.meta.url.endsWith('.ts') ? './main.ts' : './main.js', import.meta.url);

/** A thread with the handler of a job. Runs come one after the other. */
export class HandlerThread {
  readonly #worker: Worker;
  readonly #ended: Promise<number>;
  #isOver = false;

  constructor(data: ThreadData) {
    this.#worker = new Worker(MAIN, { workerData: data });
    this.#ended = new Promise((resolve) => this.#worker.once('exit', resolve));
    void this.#ended.then(() => (this.#isOver = true));
    // Told by the run that it ends; an idle one is not taken any more.
    this.#worker.on('error', () => (this.#isOver = true));
    this.#worker.unref();
  }

  /** Whether it can take another run. */
  get isUsable(): boolean {
    return !this.#isOver;
  }

  async terminate(): Promise<void> {
    this.#isOver = true;
    await this.#worker.terminate();
  }

  /**
   * Settles as the handler does. Once the signal has aborted the handler has 2 s; then the thread is terminated, and when nothing of it runs
   * any more this rejects with the signal's reason.
   */
  async run(context: JobContext, window: LeaseWindow): Promise<unknown> {
    const { lease, job, run, signal, log } = context;
    const { resource, grant, ttlMs } = lease;
    let timer: NodeJS.Timeout | undefined;
    const abort = (): void => {
      this.#send({ type: 'abort', reason: plainOf(signal.reason) });
      timer = setTimeout(() => {
        log.error({}, 'handler ignores its signal; its thread is terminated');
        void this.terminate();
      }, TERMINATE_AFTER_MS);
    };
    this.#worker.ref();
    try {
      const outcome = this.#outcome(context);
      const message: RunMessage = { type: 'run', job, run, lease: { resource, grant, ttlMs, window: window.buffer } };
      this.#send(message);
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort);
      return await outcome;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      this.#worker.unref();
    }
  }

  #outcome({ lease, signal, log }: JobContext): Promise<unknown> {
    return new Promise((resolve, reject: (error: Error) => void) => {
      let fault: unknown;
      const failed = (error: unknown): void => void (fault = error);
      const heard = (message: FromThread): void => {
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
            stop();
            resolve(message.value);
            break;
          case 'failed':
            stop();
            // What it gave up with is the reason that it was given.
            reject(isReason(message.error.code) && signal.aborted ? (signal.reason as Error) : errorOf(message.error));
        }
      };
      const stop = (): void => {
        this.#worker.off('message', heard);
        this.#worker.off('error', failed);
      };
      this.#worker.on('message', heard);
      this.#worker.on('error', failed);
      void this.#ended.then((code) => {
        stop();
        if (fault === undefined && signal.aborted) reject(signal.reason as Error);
        else reject(fault instanceof Error ? fault : new Error(`the thread of the handler has ended, with ${code}`));
      });
    });
  }

  #send(message: ToThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#worker.postMessage(message);
  }
}

function isReason(code: string | undefined): boolean {
  return code === 'RUN_CANCELLED' || code === 'LEASE_LOST';
}

/** A line that the thread has logged, with the fields that lines of the run have here. */
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
