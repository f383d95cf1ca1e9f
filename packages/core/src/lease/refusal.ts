import {
  ResourceBusyError,
  TickRefusedError,
  type BusyReason,
  type Holder,
  type LeaseholdError,
  type TickReason,
} from '../errors.ts';

/** Why there is no lease: somebody else has it, or the tick is not to be run here. A value, not a fault. */
export interface Refusal {
  readonly reason: BusyReason | TickReason;
  /** Who has it; null if nobody has. */
  readonly holder: Holder | null;
  /** Milliseconds until asking again can help, if nobody prolongs it; for a tick refusal other than `clock-ahead` 0. */
  readonly remainingMs: number;
}

const TICK_REASONS: ReadonlySet<string> = new Set<TickReason>(['already-ran', 'superseded', 'too-late', 'clock-ahead']);

export function isTickReason(reason: BusyReason | TickReason): reason is TickReason {
  return TICK_REASONS.has(reason);
}

export function refusalError(resource: string, { reason, holder, remainingMs }: Refusal): LeaseholdError {
  if (isTickReason(reason)) return new TickRefusedError(resource, { reason, aheadMs: remainingMs });
  return new ResourceBusyError(resource, { reason, holder, remainingMs });
}
