import type { LeaseholdError, LeaseLostError, StaleTokenError, CancelReason } from '../errors.ts';
import type { Clock } from '../clock.ts';
import type { ManagerEvents, StoreOperation } from '../events.ts';
import { silentLogger, type Logger } from '../log.ts';
import type { Refusal } from './refusal.ts';
import { isTickReason } from './refusal.ts';
import type { Tenure, TenureObserver } from './tenure.ts';
import type { Timing } from './term.ts';

/** Where events go. */
export interface Stage {
  /** Whether anyone listens: what nobody hears need not be put into words. */
  listens(event: keyof ManagerEvents): boolean;
  announce<K extends keyof ManagerEvents>(event: K, payload: ManagerEvents[K][0]): void;
}

function eventOf({ resource, grant }: Tenure): { resource: string; leaseId: string; fencingToken: number } {
  return { resource, leaseId: grant.leaseId, fencingToken: grant.fencingToken };
}

// Some log scrubbers remove fields whose name contains `token`.
function fieldsOf({ resource, grant }: Tenure): { resource: string; leaseId: string; fence: number } {
  return { resource, leaseId: grant.leaseId, fence: grant.fencingToken };
}

/** Says what happens to leases: to the logger, and as events. */
export class Announcer implements TenureObserver {
  readonly #stage: Stage;
  readonly #logger: Logger;
  /** Of the two levels that every run would write to. */
  readonly #isSilent: boolean;

  readonly #clock: Clock;

  constructor(stage: Stage, logger: Logger, clock: Clock) {
    this.#stage = stage;
    this.#logger = logger;
    this.#clock = clock;
    this.#isSilent = logger === silentLogger;
  }

  opened({ ttlMs, refreshMs, windowMs }: Timing, store: string): void {
    this.#logger.debug(
      { ttlMs, refreshMs, windowMs, store },
      `leases of ${ttlMs} ms, extended every ${Math.round(refreshMs)} ms, trusted for ${Math.round(windowMs)} ms`,
    );
  }

  /** Asked for since `sinceMs`, by the monotonic clock. */
  acquired(tenure: Tenure, sinceMs: number): void {
    if (!this.#isSilent) this.#logger.debug(fieldsOf(tenure), 'lease acquired');
    if (this.#stage.listens('acquired')) {
      const waitedMs = this.#clock.monotonicMs() - sinceMs;
      this.#stage.announce('acquired', { ...eventOf(tenure), ttlMs: tenure.timing.ttlMs, waitedMs });
    }
  }

  acquireFailed(resource: string, error: LeaseholdError, sinceMs: number): void {
    const waitedMs = this.#clock.monotonicMs() - sinceMs;
    this.#logger.debug({ resource, err: error, waitedMs }, 'acquisition failed');
    this.#stage.announce('acquireFailed', { resource, error, waitedMs });
  }

  timing(operation: StoreOperation['operation']): ((outcome: string, leases?: number) => void) | undefined {
    if (!this.#stage.listens('operation')) return undefined;
    const startedMs = this.#clock.monotonicMs();
    return (outcome, leases = 1) => {
      const durationMs = this.#clock.monotonicMs() - startedMs;
      this.#stage.announce('operation', { operation, outcome, leases, durationMs });
    };
  }

  refusal(resource: string, job: string | undefined, refusal: Refusal): void {
    const { reason, holder, remainingMs, aheadMs } = refusal;
    const fields = { resource, reason, holder: holder?.owner, remainingMs };
    if (isTickReason(reason)) {
      this.#logger.debug({ ...fields, aheadMs }, 'tick refused');
      this.#stage.announce('tickRefused', { resource, job: job ?? '', reason, aheadMs: aheadMs ?? 0, remainingMs });
    } else {
      this.#logger.debug(fields, 'lease not acquired');
      this.#stage.announce('busy', { resource, reason, holder, remainingMs });
    }
  }

  extended(tenure: Tenure, remainingMs: number): void {
    if (!this.#stage.listens('extended')) return;
    this.#stage.announce('extended', { ...eventOf(tenure), remainingMs });
  }

  extendFailed(tenure: Tenure, error: LeaseholdError | null): void {
    const remainingMs = tenure.remainingMs();
    this.#logger.warn({ ...fieldsOf(tenure), err: error, remainingMs }, 'extend had no answer');
    this.#stage.announce('extendFailed', { ...eventOf(tenure), remainingMs, error });
  }

  cancelled(tenure: Tenure, reason: CancelReason): void {
    this.#logger.info({ ...fieldsOf(tenure), reason }, 'run cancelled, lease still held');
    this.#stage.announce('cancelled', { ...eventOf(tenure), reason });
  }

  lost(tenure: Tenure, error: LeaseLostError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error, reason: error.reason }, 'lease lost');
    this.#stage.announce('lost', { ...eventOf(tenure), error });
  }

  refused(tenure: Tenure, error: StaleTokenError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error }, 'refused at a fence');
    this.#stage.announce('rejected', { ...eventOf(tenure), error });
  }

  released(tenure: Tenure): void {
    const isHeard = this.#stage.listens('released');
    if (this.#isSilent && !isHeard) return;
    const heldMs = this.#clock.monotonicMs() - tenure.startedMs;
    this.#logger.debug({ ...fieldsOf(tenure), heldMs }, 'lease released');
    if (isHeard) this.#stage.announce('released', { ...eventOf(tenure), heldMs });
  }

  releaseUnconfirmed(tenure: Tenure, error: LeaseholdError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error }, 'release unconfirmed; tried again until the ttl has passed');
    this.#stage.announce('releaseUnconfirmed', { ...eventOf(tenure), error });
  }
}
