import type { Job } from 'bullmq';

export interface FakeJob extends Job {
  /** The delays it was put back with, in ms. */
  readonly delays: number[];
  /** Thrown by the next moves, one each. */
  readonly refusals: Error[];
}

/** As much of a job as the adapter uses. */
export function fakeJob(
  fields: { readonly id?: string; readonly data?: unknown; readonly attemptsStarted?: number } = {},
): FakeJob {
  const delays: number[] = [];
  const refusals: Error[] = [];
  return {
    id: '1',
    data: {},
    attemptsStarted: 1,
    attemptsMade: 0,
    delays,
    refusals,
    async moveToDelayed(timestamp: number, token?: string) {
      if (token !== 'lock') throw new Error('not with the lock of the job');
      const refusal = refusals.shift();
      if (refusal !== undefined) throw refusal;
      delays.push(timestamp - Date.now());
    },
    ...fields,
  } as unknown as FakeJob;
}

export function bullError(code: number): Error {
  return Object.assign(new Error(`refused with ${code}`), { code });
}
