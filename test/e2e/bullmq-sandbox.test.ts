import { fileURLToPath } from 'node:url';
import { LeasedWorker, type LeaseOptions, type SandboxedLease, type SandboxedReason } from '@leasehold/bullmq';
import { redisFence } from '@leasehold/core/redis';
import type { Job, WorkerOptions } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { sourceArgs } from '../../scripts/lib/prepare.mjs';
import { connectRedis } from '../support/redis-client.ts';
import { Bench, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');
const file = new URL('fixtures/bullmq-sandboxed.mjs', import.meta.url);

const KINDS: Record<string, Partial<WorkerOptions>> = {
  process: { workerForkOptions: { execArgv: sourceArgs() } },
  thread: { useWorkerThreads: true, workerThreadsOptions: { execArgv: [] } },
};

/** A worker whose processor is the file, in a `kind` of its own. */
function sandboxed(bench: Bench, kind: string, lease: Partial<LeaseOptions> = {}): LeasedWorker {
  const its: LeaseOptions = { resource: 'reports', manager: bench.manager({ ttl: 1500 }), ...lease };
  const where = kind === 'process' ? file : fileURLToPath(file);
  return bench.worker(
    new LeasedWorker(bench.name, where, { connection: bench.connection, ...KINDS[kind], lease: its }),
  );
}

describe.each(['process', 'thread'])('a processor in a %s of its own', (kind) => {
  test('has its lease as plain data, which is nowhere else', async () => {
    await using bench = new Bench(redisUrl);
    const worker = sandboxed(bench, kind);
    let lease: Job & { lease: SandboxedLease } = undefined as never;
    worker.on('leaseAcquired', (job) => (lease = job as never));
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ does: 'report' });
    const [args] = await completed;
    const { grant } = lease.lease;
    expect(args?.[1]).toEqual({
      lease: { ...grant, grant },
      data: { does: 'report' },
      token: expect.stringMatching(worker.id),
    });
    expect(grant.resource).toBe(`${bench.prefix}/reports`);
    expect((await bench.stored(job)).data).toEqual({ does: 'report' });
  });

  test('hears that it is lost, in words that survive the way, and runs again', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const worker = sandboxed(bench, kind);
    const heard: SandboxedReason[] = [];
    worker.on('progress', (_, progress) => {
      if (progress === 1) void raw.del(`${bench.prefix}:{reports}`);
      else heard.push((progress as { heard: SandboxedReason }).heard);
    });
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ does: 'wait' }, { attempts: 1 });
    await completed;
    expect(heard).toEqual([
      {
        name: 'LeaseLostError',
        code: 'LEASE_LOST',
        message: expect.stringMatching(/^LEASE_LOST reports: missing/),
        reason: 'missing',
      },
    ]);
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('can be cancelled, and is put back when its worker closes', async () => {
    await using bench = new Bench(redisUrl);
    const worker = sandboxed(bench, kind, { grace: 0 });
    const failed = emitted(worker, 'failed');
    worker.once('progress', (job) => worker.cancelJob(job.id as string, 'not wanted'));
    const first = await bench.add({ does: 'wait' });
    await failed;
    expect((await bench.stored(first)).failedReason).toMatch(/^RUN_CANCELLED reports: caller/);

    const waits = emitted(worker, 'progress');
    const second = await bench.add({ does: 'wait' }, { attempts: 1 });
    await waits;
    await worker.close();
    expect(await second.getState()).toBe('waiting');
    expect(await bench.stored(second)).toMatchObject({ attemptsMade: 0 });
    expect(bench.failures).toHaveLength(1);
  });
});

describe('a processor in a process of its own', () => {
  test('is fenced by its lease and by its grant, and what the fence refuses is a loss', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const worker = sandboxed(bench, 'process');
    const key = `{${bench.prefix}/reports}:balance`;
    const ledger = redisFence(raw, { name: 'ledger' });
    worker.once('progress', async (_, lease) => {
      const { resource, fencingToken } = lease as SandboxedLease;
      await ledger.seal(resource, fencingToken);
      await raw.rpush(`${key}:sealed`, 'go');
    });
    const lost = emitted(worker, 'leaseLost');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ does: 'write', redisUrl, key });
    const [args] = await lost;
    expect(args?.[1]).toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
    await completed;
    expect(await raw.lrange(key, 0, -1)).toEqual(['2']);
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'written', attemptsMade: 1 });
  });

  test('is not started for a busy resource', async () => {
    await using bench = new Bench(redisUrl);
    const held = await bench.manager().acquire('reports');
    const worker = sandboxed(bench, 'process');
    const busy = emitted(worker, 'leaseBusy');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ does: 'report' });
    await busy;
    await expect.poll(() => job.getState()).toBe('delayed');
    await held.release();
    await completed;
    expect(bench.failures).toEqual([]);
  });
});
