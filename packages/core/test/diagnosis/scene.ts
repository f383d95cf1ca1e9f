import type { AcquireRequest, LeaseRecord } from '../../src/store/store.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import { FaultyStore } from '../../src/testing/faulty-store.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';

export const TTL_MS = 10_000;
const call = { timeoutMs: 1000 };

function requestFor(leaseId: string): AcquireRequest {
  return {
    resource: 'r',
    leaseId,
    ttlMs: TTL_MS,
    mode: 'try',
    owner: { line: 'web-7f9c', json: '{}' },
    channel: '',
    history: 'exceptions',
    floor: 0,
    replaces: '',
    waitRefreshMs: 1000,
    quarantineMs: 0,
  };
}

/** A store whose time a test moves, and what an owner does there. */
export class Scene {
  readonly clock = new ManualClock();
  readonly call = call;
  readonly store = new FaultyStore(new MemoryLeaseStore({ clock: this.clock }), { clock: this.clock });

  async acquire(leaseId: string): Promise<LeaseRecord> {
    await this.store.acquire(requestFor(leaseId), call);
    const record = await this.store.read('r', call);
    if (record === null) throw new Error('no record');
    return record;
  }

  async extend(leaseId: string): Promise<void> {
    await this.store.extend([{ resource: 'r', leaseId, ttlMs: TTL_MS }], call);
  }
}

/** What a promise has come to, where time stands still. */
export function outcomeOf<T>(promise: Promise<T>): { value?: T; error?: unknown } {
  const outcome: { value?: T; error?: unknown } = {};
  promise.then(
    (value) => (outcome.value = value),
    (error: unknown) => (outcome.error = error),
  );
  return outcome;
}
