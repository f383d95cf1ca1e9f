import type { Job } from 'bullmq';
import { putBacks } from './put-back.ts';

const AFTER_PUT_BACKS = 8;
const WAIT_MS = 2000;
/** How much of one slot may be spent on waiting in vain. */
const SHARE = 0.1;

export interface Wait {
  readonly forMs: number;
  /** Only the first call counts. */
  end(inVain: boolean): void;
}

/**
 * Lets a job that was put back again and again keep its slot for a moment and stand in line at the store, where nobody
 * passes it: so none starves. One job of a worker at a time, and for long none after one that waited in vain, because jobs
 * of free resources want the slot as well.
 */
export class LiveWaiter {
  #isTaken = false;
  #notBeforeMs = 0;

  /** For how long this job may wait, if at all. */
  claim(job: Pick<Job, 'attemptsStarted' | 'attemptsMade'>): Wait | undefined {
    if (putBacks(job) < AFTER_PUT_BACKS || this.#isTaken || performance.now() < this.#notBeforeMs) return undefined;
    this.#isTaken = true;
    let hasEnded = false;
    return {
      forMs: WAIT_MS,
      end: (inVain) => {
        if (hasEnded) return;
        hasEnded = true;
        this.#isTaken = false;
        if (inVain) this.#notBeforeMs = performance.now() + WAIT_MS / SHARE;
      },
    };
  }
}
