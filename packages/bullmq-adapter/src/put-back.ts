import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, type Job } from 'bullmq';
import { propertyOf } from './thrown.ts';

const FIRST_DELAY_MS = 100;
const GROWTH = 1.5;
const MIN_DELAY_MS = 50;
const MAX_DELAY_MS = 30_000;

// BullMQ's answers for "this job is no longer yours": gone, no lock, not active, somebody else's lock.
const NOT_OURS: ReadonlySet<unknown> = new Set([-1, -2, -3, -6]);
const RETRY_PAUSES_MS = [100, 200, 400, 800];

/**
 * How long a job rests before it asks again: longer with each start that used no attempt, so that it waits about half as
 * long again as it has waited, and never much longer than the holder's lease still runs. Jitter, because the jobs of one
 * resource would otherwise come back together.
 */
export function delayMs(
  job: Pick<Job, 'attemptsStarted' | 'attemptsMade'>,
  remainingMs: number,
  random: () => number = Math.random,
): number {
  const startsBefore = Math.max(0, job.attemptsStarted - job.attemptsMade - 1);
  const grownMs = FIRST_DELAY_MS * GROWTH ** startsBefore * (0.75 + random() / 2);
  // Just after the end of the lease, not just before it.
  const limitMs = Math.min(remainingMs, MAX_DELAY_MS) + MIN_DELAY_MS * random();
  return Math.round(Math.max(MIN_DELAY_MS, Math.min(grownMs, limitMs)));
}

/**
 * Gives the job back to its queue without using an attempt. Always throws: `DelayedError`, which tells BullMQ that the job
 * was moved; or `why`, if it could not be. Then either the job is not ours any more, and BullMQ refuses to record the
 * failure as it refused the move; or BullMQ's store is out of order and the failure at least names the true cause.
 *
 * `moveToWait` would put the job in front of all others, and a rate limit would stop the whole queue.
 */
export async function putBack(job: Job, token: string, forMs: number, why: unknown): Promise<never> {
  for (let tries = 0; ; tries++) {
    try {
      await job.moveToDelayed(Date.now() + forMs, token);
      break;
    } catch (error) {
      const pauseMs = RETRY_PAUSES_MS[tries];
      if (NOT_OURS.has(propertyOf(error, 'code')) || pauseMs === undefined) throw why;
      await sleep(pauseMs);
    }
  }
  throw new DelayedError();
}
