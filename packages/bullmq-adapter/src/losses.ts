import type { Job } from 'bullmq';

const REQUEUED = 3;
const MAX_JOBS = 10_000;

/**
 * How often each job has lost its lease without ending otherwise. In this process alone: a job's data is its producer's,
 * and its counters are BullMQ's. A job that wanders between processes is put back that much more often.
 */
export class Losses {
  readonly #counts = new Map<string, number>();

  /** Whether the job has lost it more often than it is put back for free. */
  add(job: Job): boolean {
    const key = keyOf(job);
    const count = (this.#counts.get(key) ?? 0) + 1;
    // The oldest entry goes first, and this is the newest.
    this.#counts.delete(key);
    this.#counts.set(key, count);
    if (this.#counts.size > MAX_JOBS) this.#counts.delete(this.#counts.keys().next().value as string);
    return count > REQUEUED;
  }

  forget(job: Job): void {
    if (this.#counts.size > 0) this.#counts.delete(keyOf(job));
  }
}

/** With its time: the id of a job that is gone may be given to another. */
function keyOf({ id, timestamp }: Job): string {
  return `${timestamp} ${id}`;
}
