import { randomBytes } from 'node:crypto';
import type { RedisLeaseStore } from '@leasehold/core/redis';

type AcquireRequest = Parameters<RedisLeaseStore['acquire']>[0];
type CancelRequest = Parameters<RedisLeaseStore['cancel']>[0];
type ReleaseRequest = Parameters<RedisLeaseStore['release']>[0];

export const leaseId = (): string => randomBytes(16).toString('hex');

export function acquireOf(resource: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    resource,
    leaseId: leaseId(),
    ttlMs: 30_000,
    mode: 'try',
    owner: { line: `test pid ${process.pid}`, json: `{"pid":${process.pid}}` },
    channel: '',
    floor: 0,
    replaces: '',
    waitRefreshMs: 10_000,
    quarantineMs: 0,
    history: 'exceptions',
    ...more,
  };
}

export function releaseOf(of: AcquireRequest, more: Partial<ReleaseRequest> = {}): ReleaseRequest {
  return { resource: of.resource, leaseId: of.leaseId, outcome: 'done', floor: 0, history: 'exceptions', ...more };
}

/** Withdraws, and leaves a tombstone. */
export function cancelOf(
  of: Pick<AcquireRequest, 'resource' | 'leaseId'>,
  more: Partial<CancelRequest> = {},
): CancelRequest {
  const { resource, leaseId } = of;
  return { resource, leaseId, outcome: 'not-started', floor: 0, history: 'exceptions', tombstoneMs: 60_000, ...more };
}

/** Generous: what a test does not measure must not depend on how busy the machine is. */
export const call = { timeoutMs: 10_000 } as const;
