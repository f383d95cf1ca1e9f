import type { TaskContext } from 'node-cron';

import type { Zone } from './local-time.ts';
import { slotNear, type Schedule } from './slots.ts';

type Execution = NonNullable<TaskContext['execution']>;

/** A call by node-cron. */
export interface NodeCronContext extends TaskContext {
  readonly execution: Execution;
}

/** How much before a slot a call may come that means it rather than the slot that has just passed. */
const EARLY_MS = 128;
/** A call that follows a slot so soon means that slot, though the next one may be nearer. */
const LATE_MS = 1000;
/** How much before a slot a call may come that can mean no other. The store allows as much. */
const MAX_EARLY_MS = 2000;

/** Other schedulers call with arguments of their own. */
export function isNodeCronContext(value: unknown): value is NodeCronContext {
  if (typeof value !== 'object' || value === null) return false;
  const { date, triggeredAt, execution } = value as Partial<Record<keyof TaskContext, unknown>>;
  const reason = (execution as { readonly reason?: unknown } | null | undefined)?.reason;
  return date instanceof Date && triggeredAt instanceof Date && (reason === 'scheduled' || reason === 'invoked');
}

/**
 * The slot that a scheduler means which calls at `nowMs` (epoch milliseconds), or null: the two read the expression, or
 * the zone, otherwise.
 *
 * A call may be as late as a run may begin: what is later would be refused as too late. Calls are late more than they are
 * early, because timers are; croner and cron look at the clock before they call, so what is early there is what the clock
 * was set back by in between, which time services do in steps of 128 ms and more, and in corrections below.
 */
export function slotOfCall(schedule: Schedule, nowMs: number, startingDeadlineMs: number): number | null {
  return (
    slotNear(schedule, nowMs, Math.min(LATE_MS, startingDeadlineMs), EARLY_MS) ??
    slotNear(schedule, nowMs, startingDeadlineMs, MAX_EARLY_MS)
  );
}

/** What node-cron would have called with, as far as there is such a thing. Epoch milliseconds. */
export function contextOfCall(atMs: number, nowMs: number, zone: Zone): TaskContext {
  return { date: new Date(atMs), dateLocalIso: localIso(atMs, zone), triggeredAt: new Date(nowMs) };
}

function localIso(atMs: number, zone: Zone): string {
  const offsetMs = zone.offsetAt(atMs);
  const local = new Date(atMs + offsetMs).toISOString().slice(0, -1);
  if (offsetMs === 0) return `${local}Z`;
  const minutes = Math.abs(offsetMs) / 60_000;
  const pad = (value: number): string => String(value).padStart(2, '0');
  return `${local}${offsetMs < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}
