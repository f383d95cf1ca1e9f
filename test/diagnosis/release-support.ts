import { LeaseManager, type Fence, type ManagerEvents } from '@leasehold/core';
import { forceRelease, type ForceReleaseOptions, type ForceReleaseResult } from '@leasehold/core/diagnosis';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { inject } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';

const member = new URL('../e2e/fixtures/member.ts', import.meta.url);

/** A process that holds leases, and an operator in this one. */
export interface Incident extends AsyncDisposable {
  readonly owner: Child;
  readonly operator: LeaseManager;
  readonly ledger: Fence;
  readonly told: ManagerEvents['forceReleased'][0][];
  hold(resource: string): Promise<{ readonly leaseId: string; readonly fencingToken: number }>;
  /** By the operator, fenced by the ledger. */
  force(resource: string, leaseId: string, rest?: Partial<ForceReleaseOptions>): Promise<ForceReleaseResult>;
}

/**
 * `ttlMs`: of the owner's leases. A short one runs out soon; a longer one is safe on a machine that is busy. `ownerUrl`: by
 * which way the owner talks to the store.
 */
export async function incident(ttlMs = 500, ownerUrl?: string): Promise<Incident> {
  const url = inject('redisUrl');
  const prefix = uniqueName('incident');
  const operator = new LeaseManager({ store: redisStore(url, { prefix }), ttl: '1s' });
  const client = await connectRedis(url);
  const ledger = redisFence(client, { name: 'ledger' });
  const told: ManagerEvents['forceReleased'][0][] = [];
  operator.on('forceReleased', (event) => told.push(event));
  // They run side by side: what one test leaves may not be ended with another.
  const owner = startChild(member, {
    env: { REDIS_URL: ownerUrl ?? url, PREFIX: prefix, TTL_MS: String(ttlMs) },
    scope: 'file',
  });
  await owner.next('ready');
  return {
    owner,
    operator,
    ledger,
    told,
    async hold(resource) {
      owner.send('do', { op: 'hold', resource, fenced: true });
      return owner.next('holds');
    },
    force: (resource, leaseId, rest = {}) =>
      forceRelease(operator, resource, { leaseId, reason: 'drill', fences: [ledger], ...rest }),
    async [Symbol.asyncDispose]() {
      await owner.kill9();
      await operator.close({ grace: 0, abandonAfter: 0 });
      client.disconnect();
    },
  };
}

/** The fence, but for a call that does as is said instead. */
export function but(fence: Fence, name: string, instead: Partial<Fence>): Fence {
  return {
    name,
    enforcing: true,
    activate: (grant) => fence.activate(grant),
    write: (grant, body) => fence.write(grant, body),
    seal: (resource, token) => fence.seal(resource, token),
    highest: (resource) => fence.highest(resource),
    ...instead,
  };
}

export function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    (value) => ({ noError: value }),
    (error: unknown) => error,
  );
}
