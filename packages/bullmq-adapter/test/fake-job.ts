import type { Job } from 'bullmq';

export interface FakeJob extends Job {
  /** The delays it was put back with, in ms. */
  readonly delays: number[];
  /** Thrown by the next moves, one each. */
  readonly refusals: Error[];
  /** How often it was brought back. */
  promoted: number;
  /** Whether BullMQ's lock of it is in other hands. */
  isTaken: boolean;
  /** What others have made of it in its queue since; null if they have removed it. */
  others: Partial<Pick<Job, 'timestamp' | 'attemptsStarted' | 'delay'>> | null;
}

/** As much of a job as the adapter uses. */
export function fakeJob(
  fields: {
    readonly id?: string;
    readonly data?: unknown;
    readonly attemptsStarted?: number;
    readonly timestamp?: number;
  } = {},
): FakeJob {
  const job = {
    id: '1',
    data: {},
    timestamp: 0,
    attemptsStarted: 1,
    attemptsMade: 0,
    delays: [] as number[],
    refusals: [] as Error[],
    delay: 0,
    promoted: 0,
    isTaken: false,
    others: {} as FakeJob['others'],
    constructor: { fromId: async () => (job.others === null ? undefined : { ...job, ...job.others }) },
    async moveToDelayed(timestamp: number, token?: string) {
      if (token !== 'lock') throw new Error('not with the lock of the job');
      const refusal = job.refusals.shift();
      if (refusal !== undefined) throw refusal;
      if (job.isTaken) throw bullError(-6);
      job.delay = timestamp - Date.now();
      job.delays.push(job.delay);
    },
    async promote() {
      if (job.delays.length === 0) throw bullError(-3);
      job.promoted++;
      job.delay = 0;
    },
    async extendLock(token: string) {
      return token === 'lock' && !job.isTaken ? 1 : 0;
    },
    ...fields,
  };
  return job as unknown as FakeJob;
}

export function bullError(code: number): Error {
  return Object.assign(new Error(`refused with ${code}`), { code });
}
