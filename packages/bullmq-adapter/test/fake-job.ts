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
    promoted: 0,
    isTaken: false,
    async moveToDelayed(timestamp: number, token?: string) {
      if (token !== 'lock') throw new Error('not with the lock of the job');
      const refusal = job.refusals.shift();
      if (refusal !== undefined) throw refusal;
      if (job.isTaken) throw bullError(-6);
      job.delays.push(timestamp - Date.now());
    },
    async promote() {
      if (job.delays.length === 0) throw bullError(-3);
      job.promoted++;
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
