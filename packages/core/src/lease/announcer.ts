import type { LeaseholdError, LeaseLostError, StaleTokenError, TickReason, CancelReason } from '../errors.ts';
import type { ManagerEvents } from '../events.ts';
import type { Logger } from '../log.ts';
import type { Refusal } from './refusal.ts';
import { isTickReason } from './refusal.ts';
import type { Tenure, TenureObserver } from './tenure.ts';

export type Announce = <K extends keyof ManagerEvents>(event: K, payload: ManagerEvents[K][0]) => void;

function eventOf({ resource, grant }: Tenure): { resource: string; leaseId: string; fencingToken: number } {
  return { resource, leaseId: grant.leaseId, fencingToken: grant.fencingToken };
}

// Some log scrubbers remove fields whose name contains `token`.
function fieldsOf({ resource, grant }: Tenure): { resource: string; leaseId: string; fence: number } {
  return { resource, leaseId: grant.leaseId, fence: grant.fencingToken };
}

/** Says what happens to leases: to the logger, and as events. */
export class Announcer implements TenureObserver {
  readonly #announce: Announce;
  readonly #logger: Logger;

  constructor(announce: Announce, logger: Logger) {
    this.#announce = announce;
    this.#logger = logger;
  }

  acquired(tenure: Tenure): void {
    this.#logger.debug(fieldsOf(tenure), 'lease acquired');
    this.#announce('acquired', { ...eventOf(tenure), ttlMs: tenure.timing.ttlMs });
  }

  refusal(resource: string, job: string | undefined, refusal: Refusal): void {
    const { reason, holder, remainingMs } = refusal;
    this.#logger.debug({ resource, reason, holder: holder?.owner, remainingMs }, 'lease not acquired');
    if (isTickReason(reason)) this.#tickRefused(resource, job ?? '', reason, remainingMs);
    else this.#announce('busy', { resource, reason, holder, remainingMs });
  }

  extended(tenure: Tenure, remainingMs: number): void {
    this.#announce('extended', { ...eventOf(tenure), remainingMs });
  }

  extendFailed(tenure: Tenure, error: LeaseholdError | null): void {
    const remainingMs = tenure.remainingMs();
    this.#logger.warn({ ...fieldsOf(tenure), err: error, remainingMs }, 'extend had no answer');
    this.#announce('extendFailed', { ...eventOf(tenure), remainingMs, error });
  }

  cancelled(tenure: Tenure, reason: CancelReason): void {
    this.#logger.info({ ...fieldsOf(tenure), reason }, 'run cancelled, lease still held');
    this.#announce('cancelled', { ...eventOf(tenure), reason });
  }

  lost(tenure: Tenure, error: LeaseLostError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error, reason: error.reason }, 'lease lost');
    this.#announce('lost', { ...eventOf(tenure), error });
  }

  refused(tenure: Tenure, error: StaleTokenError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error }, 'refused at a fence');
    this.#announce('rejected', { ...eventOf(tenure), error });
  }

  released(tenure: Tenure, heldMs: number): void {
    this.#logger.debug({ ...fieldsOf(tenure), heldMs }, 'lease released');
    this.#announce('released', { ...eventOf(tenure), heldMs });
  }

  releaseUnconfirmed(tenure: Tenure, error: LeaseholdError): void {
    this.#logger.warn({ ...fieldsOf(tenure), err: error }, 'release unconfirmed; tried again until the ttl has passed');
    this.#announce('releaseUnconfirmed', { ...eventOf(tenure), error });
  }

  #tickRefused(resource: string, job: string, reason: TickReason, aheadMs: number): void {
    this.#announce('tickRefused', { resource, job, reason, aheadMs });
  }
}
