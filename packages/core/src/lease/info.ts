import { vitalsOf, type OwnerIdentity } from '../owner.ts';
import type { HistoryEvent, LeaseRecord, TickRecord } from '../store/store.ts';

/** A resource as the store sees it. Advisory: it may be outdated when it arrives, and nothing may be decided by it. */
export interface LeaseInfo {
  readonly resource: string;
  /** `expired`: its lease ran out and nobody has taken it; the next acquire does. */
  readonly state: 'held' | 'expired' | 'free';
  /** One readable line; empty when free. */
  readonly owner: string;
  /** Null when free or not written by Leasehold. */
  readonly identity: OwnerIdentity | null;
  readonly leaseId: string;
  /** The last token issued; it stays after release. */
  readonly fencingToken: number;
  readonly ttlMs: number;
  /** By the store's clock; 0 unless held. */
  readonly remainingMs: number;
  readonly acquiredAt: Date;
  readonly extendedAt: Date;
  readonly expiresAt: Date;
  readonly extensions: number;
  readonly revoked: boolean;
  readonly waiting: number;
  /** When this was so, by the store's clock. */
  readonly readAt: Date;
  readonly previous: {
    readonly owner: string;
    readonly fencingToken: number;
    readonly endedAt: Date;
    readonly reason: string;
  } | null;
}

function identityOf(json: string): OwnerIdentity | null {
  try {
    const identity: unknown = JSON.parse(json);
    if (typeof identity !== 'object' || identity === null) return null;
    return 'vitals' in identity
      ? ({ ...identity, vitals: vitalsOf(identity.vitals) } as OwnerIdentity)
      : (identity as OwnerIdentity);
  } catch {
    return null;
  }
}

function dateOf(us: number): Date {
  return new Date(us / 1000);
}

export function describeRecord(resource: string, record: LeaseRecord): LeaseInfo {
  const { previous } = record;
  return {
    resource,
    state: record.state,
    owner: record.owner,
    identity: identityOf(record.ownerJson),
    leaseId: record.leaseId,
    fencingToken: record.fencingToken,
    ttlMs: record.ttlMs,
    remainingMs: record.state === 'held' ? Math.max(0, (record.expiresUs - record.nowUs) / 1000) : 0,
    acquiredAt: dateOf(record.acquiredUs),
    extendedAt: dateOf(record.extendedUs),
    expiresAt: dateOf(record.expiresUs),
    extensions: record.extensions,
    revoked: record.revoked,
    waiting: record.waiting,
    readAt: dateOf(record.nowUs),
    previous: previous && {
      owner: previous.owner,
      fencingToken: previous.fencingToken,
      endedAt: dateOf(previous.endUs),
      reason: previous.reason,
    },
  };
}

/** One line of a resource's log. */
export interface HistoryEntry extends Omit<HistoryEvent, 'atUs' | 'tickAt'> {
  readonly at: Date;
  readonly tick: Date | null;
}

export function describeEvent({ atUs, tickAt, ...event }: HistoryEvent): HistoryEntry {
  return { at: dateOf(atUs), ...event, tick: tickAt === null ? null : new Date(tickAt) };
}

/** A tick of a job, as the store remembers it. */
export interface TickInfo extends Omit<TickRecord, 'at'> {
  readonly tick: Date;
}
