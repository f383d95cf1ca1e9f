import { RunCancelledError } from '@leasehold/core';
import type { Worker } from 'bullmq';
import { settlesWithin } from './pause.ts';
import type { JobRunner } from './runner.ts';

/** How long BullMQ may take to close once the last job has ended: its store may be out of reach, and it waits for ever. */
const REST_MS = 5000;
const LAST_MS = 1000;
/** How long those that wait may take to be handed on. */
const HAND_ON_MS = 2000;

/**
 * Ends the jobs of a worker whose `closed`, BullMQ's own close, is under way: nothing new begins. They go on undisturbed for
 * `graceMs`; then they are aborted and waited for, unless they are abandoned. Resolves when all is at rest.
 */
export async function windDown(
  worker: Worker,
  runner: JobRunner,
  graceMs: number,
  closed: Promise<void>,
): Promise<void> {
  if (!(await settlesWithin(runner.idle(), graceMs))) {
    runner.cancelAll(new RunCancelledError(worker.name, 'shutdown'));
    await runner.idle();
  }
  if (await settlesWithin(closed, REST_MS)) return closed;
  for (const part of partsOf(worker)) {
    // Both, because each waits for ever in another state of a connection.
    part.close?.(true).catch(() => {});
    part.disconnect?.().catch(() => {});
  }
  await settlesWithin(closed, LAST_MS);
}

/**
 * What a worker with a lease for each job does before BullMQ closes, while its connection is there: those that wait for a
 * resource are brought back for others to wait for; by force, those that run are put back, none of them waited for.
 */
export async function leaveJobs(worker: Worker, runner: JobRunner, force: boolean): Promise<void> {
  if (force) await runner.abandonAll?.(new RunCancelledError(worker.name, 'shutdown'));
  await settlesWithin(runner.handedOn?.() ?? Promise.resolve(), HAND_ON_MS);
}

interface Closable {
  close?(force?: boolean): Promise<void>;
  disconnect?(): Promise<void>;
}

/** What keeps a process alive: BullMQ 6 has a backend, BullMQ 5 two connections; and the timer that renews locks. */
function partsOf(worker: Worker): readonly Closable[] {
  const { backend, connection, blockingConnection, lockManager } = worker as unknown as Readonly<
    Record<string, Closable | undefined>
  >;
  return [backend, connection, blockingConnection, lockManager].filter((each) => each !== undefined);
}
