import type { Lease, LeaseManager } from '@leasehold/core';

const runs = new WeakMap<LeaseManager, Map<string, Set<Lease>>>();

/**
 * The leases of the runs of a job that go on in this process, lost or not. By name, so that a task that is destroyed and made
 * anew knows of a run that still goes on.
 */
export function runningOf(manager: LeaseManager, job: string): Set<Lease> {
  const its = runs.get(manager) ?? new Map<string, Set<Lease>>();
  runs.set(manager, its);
  const running = its.get(job) ?? new Set<Lease>();
  its.set(job, running);
  return running;
}
