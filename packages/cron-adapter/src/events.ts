import { EventEmitter } from 'node:events';

import type { Holder, LeaseLostError, Refusal } from '@leasehold/core';

import type { CronTrigger } from './cron-run.ts';

/** What every event about a job carries. */
export interface CronEvent {
  readonly job: string;
  /** The instant that the schedule names; null for runs without one. */
  readonly tick: Date | null;
}

/** What every event about a run carries. */
export interface CronRunEvent extends CronEvent {
  readonly trigger: CronTrigger;
  readonly attempt: number;
  /** Null for a run that passes by the lease. */
  readonly fencingToken: number | null;
}

/**
 * Why a tick begins no run here: the store's answer (`held`: by the job of `holder`), `running-here`: a run of this job goes
 * on in this process, perhaps without its lease, `newer-tick`: the next tick has come while this one waited, `stopped`.
 */
export type SkipReason = Refusal['reason'] | 'running-here' | 'newer-tick' | 'stopped' | 'no-slot';

/** The events of a `LeasedNodeCron`, one payload object each. Those of node-cron are on its tasks, as ever. */
export interface CronEvents {
  /**
   * A tick begins no run here. Nothing is wrong with `already-ran`, which every instance but one hears of. `aheadMs`: how
   * far the tick was ahead of the store's clock, negative for behind; null unless the store measured it.
   */
  skipped: [
    CronEvent & {
      readonly reason: SkipReason;
      readonly holder: Holder | null;
      readonly aheadMs: number | null;
    },
  ];
  /** A tick has come too early for the store's clock, or finds the resource with another job; it is asked for again. */
  waiting: [
    CronEvent & { readonly reason: Refusal['reason']; readonly holder: Holder | null; readonly aheadMs: number | null },
  ];
  started: [CronRunEvent];
  /** The run has settled, `durationMs` after it began. `lost`: it ended without its lease, whatever it returned. */
  finished: [
    CronRunEvent & {
      readonly outcome: 'done' | 'failed' | 'lost';
      readonly durationMs: number;
      readonly error: unknown;
    },
  ];
  /** The lease is lost and the signal aborted; the run goes on until it returns. */
  lost: [CronRunEvent & { readonly error: LeaseLostError }];
  /** Each minute for a run that ignores that its lease is lost. No other run of the job begins in this process. */
  stillRunning: [CronRunEvent & { readonly sinceLostMs: number }];
  /** The store or a fence could not be asked. */
  unavailable: [CronEvent & { readonly error: unknown }];
}

/** Told what happens; must not throw. */
export type Announce = <K extends keyof CronEvents>(event: K, payload: CronEvents[K][0]) => void;

/** A node `EventEmitter` whose listeners cannot break a run: what they throw, or reject with, becomes a warning. */
export class CronEmitter extends EventEmitter<CronEvents> {
  readonly announce: Announce = (event, payload) => {
    for (const listener of this.rawListeners(event)) {
      const failed = (error: unknown): void => warn(`a listener of '${event}' failed: ${describe(error)}`);
      try {
        const result = (listener as (payload: unknown) => unknown).call(this, payload);
        if (result instanceof Promise) result.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
  };
}

/** For what somebody must hear of, and nobody waits for. */
export function warn(message: string): void {
  process.emitWarning(message, { type: 'LeaseholdWarning' });
}

function describe(error: unknown): string {
  try {
    return String(error);
  } catch {
    return 'with something that cannot be shown';
  }
}
