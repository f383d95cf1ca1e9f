import { LeaseLostError, LeaseManager, MemoryLeaseStore, type Lease } from '@leasehold/core';
import { describe, expect, it } from 'vitest';
import { LossWatch } from '../src/loss-watch.ts';

const leaseId = 'one';

function lease(fencingToken: number): Lease {
  return { leaseId, fencingToken } as Lease;
}

describe('a watch for losses', () => {
  it('tells of the lease that holds now, not of the one before it, which may be given up after it has begun', () => {
    const manager = new LeaseManager({ store: new MemoryLeaseStore() });
    const watch = LossWatch.of(manager);
    expect(LossWatch.of(manager)).toBe(watch);
    const heard: string[] = [];
    const [first, second] = [lease(1), lease(2)];
    watch.begin(first, () => heard.push('first'));
    watch.begin(second, () => heard.push('second'));
    watch.end(first);
    const lose = (fencingToken: number): void => {
      const error = new LeaseLostError('reports', { reason: 'expired', leaseId, fencingToken });
      manager.emit('lost', { resource: 'reports', leaseId, fencingToken, error });
    };
    lose(1);
    expect(heard).toEqual([]);
    lose(2);
    expect(heard).toEqual(['second']);
    watch.end(second);
    lose(2);
    expect(heard).toEqual(['second']);
  });
});
