import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { leasedCron } from '@leasehold/cron';
import { LeasedWorker } from '@leasehold/bullmq';
import { expect, test, vi } from 'vitest';

import { ConfigFileError, parseConfig } from '../../src/index.ts';
import { withJob } from './support.ts';

// The rules of a config are written down once more, so that all faults of a file can be told at once. They must be those of the adapter.

const options: readonly object[] = [
  {},
  { timezone: 'Europe/Berlin' },
  { timezone: 'Europe/Berlyn' },
  { timezone: 'UTC', timeZone: 'UTC' },
  { timezone: 'UTC', timeZone: 'Europe/Berlin' },
  { startingDeadline: '999ms' },
  { startingDeadline: '1s' },
  { startingDeadline: 'Infinity' },
  { startingDeadline: Infinity },
  { overlap: 'allow' },
  { overlap: 'allow', catchUp: 'latest' },
  { overlap: 'allow', retry: 1 },
  { overlap: 'allow', lease: { resource: 'a' } },
  { overlap: 'never' },
  { catchUp: 'latest', retry: 100 },
  { retry: 101 },
  { retry: -1 },
  { retry: 1.5 },
  { manual: 'bypass' },
  { manual: 'never' },
  { maxRandomDelay: 300_000 },
  { maxRandomDelay: 300_001 },
  { maxRandomDelay: 60_000, startingDeadline: '30s' },
  { maxExecutions: 1 },
  { maxExecutions: 0 },
  { maxExecutions: 1.5 },
  { missedExecutionTolerance: 0 },
  { missedExecutionTolerance: 2 ** 40 },
  { missedExecutionTolerance: -1 },
  { missedExecutionTolerance: Infinity },
  { suppressMissedWarning: true },
  { suppressMissedWarning: 'please' },
  { lease: { ttl: 99 } },
  { lease: { ttl: '100ms' } },
  { lease: { ttl: '24h' } },
  { lease: { ttl: '25h' } },
  { lease: { ttl: '30sec' } },
  { lease: { maxHold: 0 } },
  { lease: { maxHold: Infinity } },
  { lease: { activate: 'on-write' } },
  { lease: { activate: 'never' } },
  { lease: { resource: '' } },
  { lease: { resource: 'a\n' } },
  { lease: { resource: 'é'.repeat(129) } },
  { lease: { other: 1 } },
  { other: 1 },
  { cron: '61 * * * *' },
  { cron: '0 0 30 2 *' },
  { cron: '@daily' },
  { cron: '0 0 L * *' },
  { name: 'a b' },
  { name: 'a:b.c_D-9' },
  { name: '-a' },
  { name: 'a'.repeat(129) },
];

test.each(options.map((option) => [JSON.stringify(option), option] as const))(
  'a config takes %s as a cron job if leasedCron does',
  async (_, option) => {
    await using cron = leasedCron({ manager: new LeaseManager({ store: new MemoryLeaseStore() }) });
    const { cron: expression = '0 12 * * *', name = 'job', ...others } = option as { cron?: string; name?: string };
    const takes = (work: () => unknown, refusal: new (...args: never[]) => Error): boolean => {
      try {
        work();
        return true;
      } catch (error) {
        if (error instanceof refusal) return false;
        throw error;
      }
    };
    const job = { cron: expression, handler: './a.js', ...others };
    const byConfig = takes(() => {
      const config: object = withJob(job);
      parseConfig({ ...config, jobs: { [name]: job } } as never);
    }, ConfigFileError);
    // What node-cron throws for an expression is an error of its own.
    const byAdapter = takes(() => cron.createTask(expression, () => {}, { name, ...others }), Error);
    expect(byConfig).toBe(byAdapter);
    await cron.manager.close();
  },
);

const lease = { resource: 'a' };
const queueOptions: readonly object[] = [
  {},
  { queue: '' },
  { queue: 'a:b' },
  { queue: 'a b' },
  { concurrency: 0 },
  { concurrency: 1 },
  { maxStalledCount: -1 },
  { maxStalledCount: 0 },
  { stalledInterval: 0 },
  { stalledInterval: 1 },
  { lease: undefined },
  { lease: {} },
  { lease: { resource: '' } },
  { lease: { resource: 'a\n' } },
  { lease: { resource: 'é'.repeat(129) } },
  { lease: { resource: 'customer:undefined' } },
  { lease: { resource: 'null' } },
  { lease: { resource: 'nullable' } },
  { lease: { resource: 'a:[object Object]' } },
  { lease: { ...lease, ttl: 99 } },
  { lease: { ...lease, ttl: '24h' } },
  { lease: { ...lease, ttl: '25h' } },
  { lease: { ...lease, ttl: '30 s' } },
  { lease: { ...lease, maxHold: 0 } },
  { lease: { ...lease, maxHold: Infinity } },
  { lease: { ...lease, activate: 'on-write' } },
  { lease: { ...lease, activate: 'never' } },
  { lease: { ...lease, fences: 'a' } },
  { lease: { ...lease, scope: 'worker' } },
  { lease: { ...lease, scope: 'queue' } },
  { lease: { ...lease, scope: 'worker', whenBusy: 'delay' } },
  { lease: { ...lease, whenBusy: 'skip' } },
  { lease: { ...lease, whenBusy: 'wait' } },
  { lease: { ...lease, whenLost: 'retry' } },
  { lease: { ...lease, whenLost: 'again' } },
  { lease: { ...lease, abandonAfter: 0 } },
  { lease: { ...lease, abandonAfter: '1 min' } },
  { lease: { ...lease, abandonAfter: Infinity } },
  { lease: { ...lease, other: 1 } },
];

test.each(queueOptions.map((option) => [JSON.stringify(option), option] as const))(
  'a config takes %s as a job of a queue if LeasedWorker does',
  async (_, option) => {
    const { queue = 'queue', ...others } = { lease, ...option } as { queue?: string; lease: object };
    let refusal: unknown;
    try {
      parseConfig(withJob({ queue, handler: './a.js', ...others }));
    } catch (error) {
      refusal = error;
    }
    expect(refusal === undefined || refusal instanceof ConfigFileError).toBe(true);
    const manager = new LeaseManager({ store: new MemoryLeaseStore() });
    let worker: LeasedWorker | undefined;
    // BullMQ prints that nobody is there.
    using _error = vi.spyOn(console, 'error').mockImplementation(() => {});
    try {
      // It is closed before it connects anywhere.
      worker = new LeasedWorker(queue, async () => {}, {
        connection: { host: '127.0.0.1', port: 1, lazyConnect: true, retryStrategy: () => null },
        autorun: false,
        ...others,
        ...(others.lease && { lease: { ...others.lease, manager } }),
      } as never);
      worker.on('error', () => {});
    } catch {
      // What BullMQ refuses is an error of its own.
    }
    expect(refusal === undefined).toBe(worker !== undefined);
    await worker?.close(true);
    await manager.close();
  },
);
