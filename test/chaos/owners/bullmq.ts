// A worker of a queue whose jobs name what they act on.
import { LeasedWorker, type LeasedJob } from '@leasehold/bullmq';
import { qualify } from '@leasehold/core';
import type { Recording } from '@leasehold/core/testing/history';

import { connectionOf } from '../../e2e/fixtures/bullmq-setup.ts';
import { say } from '../../support/child-side.ts';
import { describe, Owner } from './owner.ts';

export interface JobData {
  /** What it acts on. */
  readonly key: string;
}

const owner = new Owner();
const { recorder, manager, fence } = owner;
const { resources, prefix, ttlMs, queue } = owner.setup;
if (queue === null) throw new Error('a worker needs a queue');

/** A queue with jobs wants their resources all the time. */
const wants = new Map<string, Recording>();
function wantAgain(key: string): void {
  wants.set(key, recorder.begin('want', { resource: qualify(prefix, key) }));
}
for (const resource of resources) wantAgain(resource);

async function act(job: LeasedJob<JobData>): Promise<void> {
  const { lease } = job;
  const { resource, leaseId, fencingToken } = lease;
  wants.get(resource)?.end('ok', { leaseId, fencingToken });
  try {
    const manner = { ...owner.manner(), rounds: 1 + Math.floor(owner.random() * 3) };
    await owner.work(lease, manner, { id: job.id ?? '', isBeside: queue?.scope === 'worker' });
  } finally {
    wantAgain(resource);
  }
}

const perJob = { resource: (job: { readonly data: JobData }) => job.data.key, whenBusy: 'delay' } as const;
const [first = ''] = resources;
const worker = new LeasedWorker<JobData>(queue.name, act, {
  connection: connectionOf(queue.url),
  concurrency: 4,
  lockDuration: ttlMs,
  stalledInterval: ttlMs / 2,
  // Each fault costs the jobs in hand one.
  maxStalledCount: 1000,
  lease: {
    ...(queue.scope === 'job' ? perJob : { scope: 'worker', resource: first }),
    fences: [fence],
    manager,
    grace: 0,
  },
});
worker.on('error', () => {}); // of its connections, and of locks that others took while it was stopped
worker.on('failed', (job, error) => {
  // With so many attempts none may fail for good.
  if (job === undefined || job.attemptsMade >= (job.opts.attempts ?? 0))
    void say('unhandled', { error: describe(error) });
});

await worker.waitUntilReady();
await say('ready');
await owner.told();
await worker.close();
await owner.close();
