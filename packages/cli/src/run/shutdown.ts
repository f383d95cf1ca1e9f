import { performance } from 'node:perf_hooks';

import type { LeaseManager } from '@leasehold/core';
import type { Logger } from 'pino';

import type { Health } from './health.ts';
import type { Runs } from './runs.ts';
import type { Trade } from './trade.ts';
import { isWithin } from './within.ts';

/** How often it is said what is waited for. */
const TELL_EVERY_MS = 5000;
/** For the releases of runs that have just ended. */
const RELEASE_WITHIN_MS = 2000;
/** For connections to be closed; their servers may be out of reach. */
const CLOSE_WITHIN_MS = 2000;

/** What a running config is made of, in the order in which it is taken down. */
export interface Parts {
  readonly health: Health;
  readonly trades: readonly Trade[];
  readonly runs: Runs;
  readonly manager: LeaseManager;
  /** Fences and their clients. */
  readonly closables: readonly { readonly what: string; readonly close: () => Promise<unknown> }[];
  readonly server: { close(): Promise<void> } | undefined;
}

export interface ShutdownTimes {
  /** How long runs may go on undisturbed. Milliseconds. */
  readonly graceMs: number;
  /** How long they may take to end once they were aborted. Milliseconds. */
  readonly settleMs: number;
}

/** Runs that had not ended when it was over. Their leases run out by themselves. */
export interface ShutdownResult {
  readonly unsettled: number;
}

/**
 * Ends everything, in this order: `/readyz` says no; nothing takes work any more; runs have the grace; they are aborted; they settle and
 * their leases are released; fences and connections are closed, and the status server last, so that a probe hears `closing` until then.
 * Never rejects.
 */
export async function shutDown(parts: Parts, times: ShutdownTimes, log: Logger): Promise<ShutdownResult> {
  const { health, trades, runs, manager, closables, server } = parts;
  const { graceMs, settleMs } = times;
  health.close();
  const stopped = Promise.allSettled(trades.map(async (trade) => trade.stop(graceMs)));
  // Some give up waiting for a run before we do.
  const ended = stopped.then(() => runs.idle());
  log.info({ runs: runs.active, graceMs }, `closing: no more work is taken; ${waitingFor(runs.active, graceMs)}`);
  if (!(await waited(ended, graceMs, runs, log))) {
    log.warn(
      { runs: runs.active, settleMs },
      `the grace is over, ${runs.active === 0 ? 'connections are waited for' : `runs are aborted; ${waitingFor(runs.active, settleMs)}`}`,
    );
    await waited(ended, settleMs, runs, log);
  }
  const unsettled = runs.active;
  if (unsettled === 0) log.info({}, 'all runs have ended');
  else
    log.error(
      { runs: unsettled },
      `${runsOf(unsettled)} ignored the signal and is left behind; its lease runs out by itself`,
    );
  const rest = { grace: unsettled === 0 ? RELEASE_WITHIN_MS : 0, abandonAfter: 0 };
  const released = await Promise.allSettled([manager.close(rest)]);
  logFailures(log, [...(await settledOf(stopped)), ...released]);
  log.info({}, 'leases are given up');
  const closing = closables.map(async ({ what, close }) => {
    if (!(await isWithin(close(), CLOSE_WITHIN_MS))) log.warn({ what }, `${what} did not close in time`);
  });
  logFailures(log, await Promise.allSettled(closing));
  log.info({ closed: closables.length }, 'fences and connections are closed');
  logFailures(log, await Promise.allSettled([server?.close()]));
  log.info({ unsettled }, 'closed');
  return { unsettled };
}

/** Whether it had settled within `forMs`, telling meanwhile how many are waited for. */
async function waited(settled: Promise<unknown>, forMs: number, runs: Runs, log: Logger): Promise<boolean> {
  const until = performance.now() + forMs;
  for (;;) {
    const leftMs = Math.max(0, until - performance.now());
    const sliceMs = Math.min(leftMs, TELL_EVERY_MS);
    if (await isWithin(settled, sliceMs)) return true;
    if (sliceMs === leftMs) return false;
    const nowLeftMs = Math.max(0, until - performance.now());
    log.info({ runs: runs.active, leftMs: Math.round(nowLeftMs) }, waitingFor(runs.active, nowLeftMs));
  }
}

/** What has settled already, without waiting for the rest. */
async function settledOf(stopped: Promise<PromiseSettledResult<unknown>[]>): Promise<PromiseSettledResult<unknown>[]> {
  return Promise.race([stopped, Promise.resolve([])]);
}

function logFailures(log: Logger, results: readonly PromiseSettledResult<unknown>[]): void {
  for (const result of results) {
    if (result.status === 'rejected') log.error({ err: result.reason as unknown }, 'a part of the shutdown failed');
  }
}

function waitingFor(runs: number, leftMs: number): string {
  return runs === 0 ? 'no run goes on' : `waiting for ${runsOf(runs)}, ${Math.ceil(leftMs / 1000)} s left`;
}

function runsOf(count: number): string {
  return count === 1 ? '1 run' : `${count} runs`;
}
