import type { Job } from 'bullmq';
import type { Parkable } from './parking.ts';
import { storedOf } from './stored.ts';

// As BullMQ says it.
const GONE = -1;
const NOT_DELAYED = -3;

/** What changes when anybody else puts the job where it is: adds it again, sets its delay, or runs it. */
type Mark = Pick<Job, 'timestamp' | 'attemptsStarted' | 'delay'>;

/**
 * A job that was put back because its resource was busy, to be brought back only as long as it stands as it was left: a
 * delay that somebody else has given it since (a job added again under this id, `changeDelay`, the backoff of a run
 * elsewhere) is not ours to end.
 *
 * BullMQ has no command that looks and promotes in one: a delay that is set between the two, which are a moment apart, is
 * still cut.
 */
export class ParkedJob implements Parkable {
  readonly id: string | undefined;
  readonly timestamp: number;
  readonly #job: Job;
  #left: Mark | undefined;

  constructor(job: Job) {
    this.#job = job;
    this.id = job.id;
    this.timestamp = job.timestamp;
  }

  moved(): void {
    const { timestamp, attemptsStarted, delay } = this.#job;
    // A copy: whoever has the job in hand may change its delay through it.
    this.#left = { timestamp, attemptsStarted, delay };
  }

  /** As BullMQ's own; a job that stands otherwise than it was left is refused as one that is not delayed. */
  async promote(): Promise<void> {
    const [left, now] = [this.#left, await storedOf(this.#job)];
    if (now === undefined) throw refusal(`job ${this.id} is gone`, GONE);
    const isAsLeft =
      now.timestamp === left?.timestamp && now.attemptsStarted === left.attemptsStarted && now.delay === left.delay;
    if (!isAsLeft) throw refusal(`job ${this.id} is not where it was put back to`, NOT_DELAYED);
    await this.#job.promote();
  }
}

function refusal(message: string, code: number): Error {
  return Object.assign(new Error(message), { code });
}
