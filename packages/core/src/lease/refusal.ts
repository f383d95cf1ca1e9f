import {
  AcquireTimeoutError,
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
  /**
   * Milliseconds until asking again can help, if nobody prolongs it; 0 for a tick refusal other than `clock-ahead` and
   * that of a `minHold`.
   */
  readonly remainingMs: number;
  /** How far the tick lies ahead of the store's clock, milliseconds, negative if behind; null where no tick was refused. */
  readonly aheadMs: number | null;
}

const TICK_REASONS: ReadonlySet<string> = new Set<TickReason>(['already-ran', 'superseded', 'too-late', 'clock-ahead']);

export function isTickReason(reason: BusyReason | TickReason): reason is TickReason {
  return TICK_REASONS.has(reason);
}

/** The refusal as an error; `waited` if the caller was willing to wait. */
export function refusalError(resource: string, refusal: Refusal, waited: boolean): LeaseholdError {
  const { reason, holder, remainingMs, aheadMs } = refusal;
  if (isTickReason(reason)) return new TickRefusedError(resource, { reason, aheadMs: aheadMs ?? 0, remainingMs });
  const busy = { reason, holder, remainingMs };
  return waited ? new AcquireTimeoutError(resource, busy) : new ResourceBusyError(resource, busy);
}
