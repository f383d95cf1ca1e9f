import type { Clock } from '../clock.ts';
import type { ManagerEvents } from '../events.ts';
import type { OwnerVitals } from '../owner.ts';
import type { LeaseStore, StoreCall } from '../store/store.ts';
import type { Context } from './context.ts';
import type { TimingAdviceRequest } from './timing-advice.ts';

/** What diagnosis needs of a manager. */
export interface Ground {
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly call: StoreCall;
  /** Who releases by force, unless somebody else is named: the owner's line. */
  readonly operator: string;
  readonly timing: Omit<TimingAdviceRequest, 'vitals' | 'multiplier'>;
  /** What this process has measured of itself. */
  readonly vitals: OwnerVitals;
  readonly quarantine: boolean;
  /** Tells of a release by force. */
  forced(event: ManagerEvents['forceReleased'][0]): void;
  /** Tells of a seal by hand. */
  sealed(event: ManagerEvents['sealed'][0]): void;
}

type Announce = <K extends 'forceReleased' | 'sealed'>(event: K, payload: ManagerEvents[K][0]) => void;

export function groundOf({ store, clock, settings, ownerRecord, engine }: Context, announce: Announce): Ground {
  const { timing, timingOptions, quarantine, logger } = settings;
  const { refreshRatio, driftRate, safetyMarginMs } = timingOptions;
  return {
    store,
    clock,
    call: { timeoutMs: timing.callTimeoutMs },
    operator: ownerRecord.line,
    timing: { refreshRatio, driftRate, safetyMarginMs, ttlMs: timing.ttlMs },
    vitals: engine.vitals.now(),
    quarantine,
    forced: (event) => {
      logger.warn({ ...event, fence: event.fencingToken }, 'release by force');
      announce('forceReleased', event);
    },
    sealed: (event) => {
      logger.warn({ ...event, fence: event.fencingToken }, 'fences sealed by hand');
      announce('sealed', event);
    },
  };
}
