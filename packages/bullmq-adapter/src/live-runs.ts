import type { Job } from 'bullmq';
import type { JobRun } from './job-run.ts';

/** How long BullMQ may take to be done with a run, where nobody says when it is. */
const DONE_AFTER_MS = 1000;

/**
 * The runs of one worker. A run is live until it has ended; it is in the way of other runs of its job until BullMQ is done
 * with it, which is when BullMQ ends the renewal of its lock: it knows the lock by the job's id alone, so it would end that
 * of another run as well.
 */
export class LiveRuns {
  readonly #live = new Set<JobRun>();
  readonly #byJob = new Map<string, Set<JobRun>>();
  /** Of which BullMQ's end will be told. */
  readonly #processing = new WeakMap<Job, (() => void)[]>();
  readonly #idle = new Set<() => void>();

  get size(): number {
    return this.#live.size;
  }

  /** Resolves when there is none. */
  async idle(): Promise<void> {
    if (this.#live.size > 0) await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  processing(job: Job): () => void {
    const then: (() => void)[] = [];
    this.#processing.set(job, then);
    return () => {
      this.#processing.delete(job);
      for (const call of then) call();
    };
  }

  /** Returns the runs of the same job that are in its way. */
  enter(run: JobRun): readonly JobRun[] {
    this.#live.add(run);
    const { id } = run.job;
    if (id === undefined) return [];
    const its = this.#byJob.get(id) ?? new Set();
    const earlier = [...its];
    this.#byJob.set(id, its.add(run));
    return earlier;
  }

  leave(run: JobRun): void {
    this.#live.delete(run);
    this.whenDone(run, () => this.#forget(run));
    if (this.#live.size > 0) return;
    for (const resolve of this.#idle) resolve();
    this.#idle.clear();
  }

  /**
   * Calls it when BullMQ is done with a run that has just ended. Where that is not told it is assumed; except of one whose
   * job is said to run elsewhere, which may well be here.
   */
  whenDone(run: JobRun, call: () => void): void {
    const waiting = this.#processing.get(run.job);
    if (waiting !== undefined) waiting.push(call);
    else if (run.isInDoubt) setTimeout(call, DONE_AFTER_MS).unref();
    else call();
  }

  of(jobId: string): Iterable<JobRun> {
    return this.#byJob.get(jobId) ?? [];
  }

  cancelAll(reason: Error): void {
    for (const run of this.#live) run.cancellation.cancel(reason);
  }

  #forget(run: JobRun): void {
    const { id } = run.job;
    const its = id === undefined ? undefined : this.#byJob.get(id);
    its?.delete(run);
    if (id !== undefined && its?.size === 0) this.#byJob.delete(id);
  }
}
