import { DelayedError, type Job } from 'bullmq';
import { pause, settlesWithin } from './pause.ts';
import { propertyOf } from './thrown.ts';

const FIRST_DELAY_MS = 100;
const GROWTH = 1.5;
/** Longer, because somebody is told when the resource is free. */
const FIRST_BUSY_DELAY_MS = 1000;
const BUSY_GROWTH = 2;
const BUSY_SPREAD = 0.1;
const MIN_DELAY_MS = 50;
const MAX_DELAY_MS = 30_000;

// BullMQ's answers for "this job is no longer yours": gone, no lock, not active, somebody else's lock.
const NOT_OURS: ReadonlySet<unknown> = new Set([-1, -2, -3, -6]);
const RETRY_PAUSES_MS = [100, 200, 400, 800];
/** How long a closing worker waits for BullMQ's store in all. */
export const CLOSING_PATIENCE_MS = 2000;

/** What of a job tells how often it was started without using an attempt. */
type Counters = Pick<Job, 'attemptsStarted' | 'attemptsMade'>;

/** How often the job was put back. BullMQ counts other starts that used no attempt as well, such as those of stalled jobs. */
export function putBacks({ attemptsStarted, attemptsMade }: Counters): number {
  return Math.max(0, attemptsStarted - attemptsMade - 1);
}

/**
 * How long a job rests before it is tried again: longer with each start that used no attempt, so that it waits about half as
 * long again as it has waited; at most `limitMs` and about 30 s. Jitter, because the jobs of one resource would otherwise
 * come back together.
 */
export function delayMs(job: Counters, limitMs: number, random: () => number = Math.random): number {
  const grownMs = FIRST_DELAY_MS * GROWTH ** putBacks(job) * (0.75 + random() / 2);
  const mostMs = Math.min(limitMs, MAX_DELAY_MS) + MIN_DELAY_MS * random();
  return Math.round(Math.max(MIN_DELAY_MS, Math.min(grownMs, mostMs)));
}

/**
 * How long a job rests whose resource is busy, if nobody brings it back before: the net under being told. Never much longer
 * than the holder's lease still runs, because nobody tells of the end of a holder that died.
 */
export function busyDelayMs(job: Counters, remainingMs: number, random: () => number = Math.random): number {
  const grownMs = FIRST_BUSY_DELAY_MS * BUSY_GROWTH ** putBacks(job) * (0.75 + random() / 2);
  // Just after the end of the lease, not just before it; not all at once, if many wait for it.
  const mostMs = (Math.min(remainingMs, MAX_DELAY_MS) + MIN_DELAY_MS * random()) * (1 + BUSY_SPREAD * random());
  return Math.round(Math.max(MIN_DELAY_MS, Math.min(grownMs, mostMs)));
}

/**
 * - `moved`: the job is delayed.
 * - `not-ours`: it is no longer this run's to move.
 * - `unknown`: BullMQ did not answer while its worker closes; it may still be moved.
 * - `failed`: BullMQ could not do it.
 */
export type MoveResult = 'moved' | 'not-ours' | 'unknown' | 'failed';

/**
 * Gives the job back to its queue without using an attempt. A worker that closes (`closing` is aborted) brings it back at
 * once, for another one, and does not wait for ever; unless `mayPromote` says that this one could still fetch it.
 *
 * `moveToWait` would put the job in front of all others, and a rate limit would stop the whole queue.
 */
export async function moveBack(
  job: Job,
  token: string,
  forMs: number,
  closing?: AbortSignal,
  mayPromote: () => boolean = () => true,
): Promise<MoveResult> {
  for (let tries = 0; ; tries++) {
    try {
      const moving = job.moveToDelayed(Date.now() + forMs, token);
      if (closing !== undefined && !(await settlesWithin(moving, CLOSING_PATIENCE_MS, closing))) return 'unknown';
      await moving;
      break;
    } catch (error) {
      const pauseMs = RETRY_PAUSES_MS[tries];
      if (NOT_OURS.has(propertyOf(error, 'code'))) return 'not-ours';
      if (pauseMs === undefined) return 'failed';
      await pause(pauseMs, closing);
    }
  }
  if (closing?.aborted === true && mayPromote()) {
    await settlesWithin(job.promote(), CLOSING_PATIENCE_MS);
  }
  return 'moved';
}

/**
 * `moveBack`, in the words of a processor. Always throws: `DelayedError`, which tells BullMQ that there is nothing to be
 * recorded; or `why`, if BullMQ's store is out of order, so that the failure at least names the true cause.
 */
export async function putBack(
  job: Job,
  token: string,
  forMs: number,
  why: unknown,
  closing?: AbortSignal,
): Promise<never> {
  const result = await moveBack(job, token, forMs, closing);
  throw result === 'failed' ? why : new DelayedError();
}
