import type { Worker } from 'bullmq';

/** BullMQ's own worker, beneath what ours overrides. */
export interface Engine {
  /** Fetches jobs until it is paused or closed; resolves then, when the jobs have ended. */
  run(): Promise<void>;
  /** Fetches no more from this very call on, though what it has asked for may still arrive. */
  pause(): Promise<void>;
  isPaused(): boolean;
  /** Undoes `pause`, and runs. */
  resume(): Promise<void>;
}

interface Connection {
  readonly _client?: { readonly status?: string };
}

/**
 * Whether the connection on which BullMQ waits for jobs is lost and not yet being made again. To end its wait, BullMQ's pause
 * disconnects; without a socket that ends the attempts to connect, and nothing tells BullMQ that it has been done, so that it
 * waits for ever and the worker never works again.
 */
export function isBetweenConnections(worker: Worker): boolean {
  // In BullMQ 6 it is its backend's, in BullMQ 5 the worker's. Others than Redis have none.
  const { backend, blockingConnection } = worker as unknown as {
    readonly backend?: { readonly blockingConnection?: Connection };
    readonly blockingConnection?: Connection;
  };
  const status = (backend?.blockingConnection ?? blockingConnection)?._client?.status;
  return status === 'reconnecting' || status === 'close';
}

/**
 * Has BullMQ ask for a job before it waits for one. It remembers that the queue was empty when it stopped, and would wait to be
 * told of a job, for up to 10 s; but who was told of those that have come since may be dead by now, or out of office.
 */
export function forgetDrained(worker: Worker): void {
  Object.assign(worker, { drained: false, blockUntil: 0 });
}
