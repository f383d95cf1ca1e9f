import type { Job } from 'bullmq';
import type { JobRun } from './job-run.ts';
import { storedOf } from './stored.ts';

/** How long BullMQ may take to be done with a run, where nobody says when it is. */
const DONE_AFTER_MS = 1000;

/** Of all workers of the process, by the id of the job, which others may have as well. */
const everywhere = new Map<string, readonly JobRun[]>();
const none: readonly JobRun[] = [];

/**
 * The runs of one worker. A run is live until it has ended; it is in the way of other runs of its job until BullMQ is done
 * with it, which is when BullMQ ends the renewal of its lock: it knows the lock by the job's id alone, so it would end that
 * of another run as well. It is in the way of those of other workers in the process, too: one job runs once.
 */
export class LiveRuns {
  readonly #live = new Set<JobRun>();
  readonly #byJob = new Map<string, readonly JobRun[]>();
  /** Of which BullMQ's end will be told, and who wants to know. */
  readonly #processing = new Map<Job, (() => void)[]>();
  readonly #idle = new Set<() => void>();

  get size(): number {
    return this.#live.size;
  }

  /** Resolves when there is none. */
  async idle(): Promise<void> {
    if (this.#live.size > 0) await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  processing(job: Job): () => void {
    const calls: (() => void)[] = [];
    this.#processing.set(job, calls);
    return () => {
      if (this.#processing.get(job) === calls) this.#processing.delete(job);
      for (const call of calls) call();
    };
  }

  /**
   * Returns the runs of the same job that are in its way. Never rejects; a promise only if the queue must be asked whether
   * what another worker runs is the same job.
   */
  enter(run: JobRun): readonly JobRun[] | Promise<readonly JobRun[]> {
    this.#live.add(run);
    const { id } = run.job;
    if (id === undefined) return none;
    const earlier = add(this.#byJob, id, run);
    const ofThisId = add(everywhere, id, run);
    if (ofThisId.length === 0) return earlier;
    const alike = ofThisId.filter(
      (its) => !earlier.includes(its) && isSame(its.job, run.job) && its.job.attemptsStarted < run.job.attemptsStarted,
    );
    return alike.length === 0 ? earlier : startedAgain(alike).then((copies) => [...earlier, ...copies]);
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
    return this.#byJob.get(jobId) ?? none;
  }

  /** Whether a run of this job is live, which is ended. */
  cancel(jobId: string, reason: unknown): boolean {
    const runs = [...this.of(jobId)].filter((run) => this.#live.has(run));
    for (const run of runs) run.cancellation.cancel(reason);
    return runs.length > 0;
  }

  cancelAll(reason: unknown): void {
    for (const run of this.#live) run.cancellation.cancel(reason);
  }

  giveUpAll(): void {
    for (const run of this.#live) run.patience.giveUp();
  }

  #forget(run: JobRun): void {
    const { id } = run.job;
    if (id === undefined) return;
    remove(this.#byJob, id, run);
    remove(everywhere, id, run);
  }
}

/** With its time: the id of a job that is gone may be given to another. */
function isSame(job: Job, other: Job): boolean {
  return job.timestamp === other.timestamp && job.queueQualifiedName === other.queueQualifiedName;
}

/**
 * Those whose job was started again since, by the word of the queue that they got it from: there may be a queue of the same
 * name, with jobs of the same ids, on another server. One that does not answer has not said so; the lease is what keeps two
 * copies apart then.
 */
async function startedAgain(runs: readonly JobRun[]): Promise<readonly JobRun[]> {
  const isAgain = async ({ job }: JobRun): Promise<boolean> => {
    try {
      return ((await storedOf(job))?.attemptsStarted ?? 0) > job.attemptsStarted;
    } catch {
      return false;
    }
  };
  const again = await Promise.all(runs.map(isAgain));
  return runs.filter((_, n) => again[n]);
}

/** Returns what was there before. */
function add(map: Map<string, readonly JobRun[]>, id: string, run: JobRun): readonly JobRun[] {
  const before = map.get(id) ?? none;
  map.set(id, before === none ? [run] : [...before, run]);
  return before;
}

function remove(map: Map<string, readonly JobRun[]>, id: string, run: JobRun): void {
  const left = map.get(id)?.filter((its) => its !== run) ?? none;
  if (left.length > 0) map.set(id, left);
  else map.delete(id);
}
