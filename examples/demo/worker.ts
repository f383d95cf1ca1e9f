import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedWorker, type LeasedJob } from '@leasehold/bullmq';
import { LeaseholdError, type LeaseManager, type StaleTokenError } from '@leasehold/core';

import type { Ledger } from './ledger.ts';
import { TTL_MS, type Order, type Payment, type Report, type Setting } from './messages.ts';

export interface WorkerParts {
  readonly setting: Setting;
  readonly leases: LeaseManager;
  readonly ledger: Ledger;
  readonly say: (report: Report) => Promise<void>;
  readonly ask: (report: Report & { readonly job: string }) => Promise<Order & { readonly type: 'go' }>;
}

/** Applies payments: one owner per account at a time. */
export function startWorker({ setting, leases, ledger, say, ask }: WorkerParts): LeasedWorker<Payment, void> {
  async function pay(job: LeasedJob<Payment, void>, _: string, signal: AbortSignal): Promise<void> {
    const { lease } = job;
    const work = workOf(job);
    const { account, amount } = work;

    const before = await ledger.read(account);
    // BullMQ delivers at least once: a job whose owner died comes again.
    if (before.applied.includes(work.job)) return say({ type: 'known', ...work });
    await say({ type: 'read', before, ...work });
    await sleep(300, undefined, { signal }); // the slow computation
    const { stopFirst } = await ask({ type: 'set', ...work });
    const after = { balance: before.balance + amount, applied: [...before.applied, work.job] };

    if (stopFirst) await say({ type: 'stopping', ...work });
    const wasHeld = lease.isHeld();
    if (!wasHeld) throw new Error(`too late for ${work.job}`);
    // The worst place for a pause: after the check, before the write.
    if (stopFirst) void say({ type: 'woken', wasHeld, stoppedMs: stopHere(), ...work });
    try {
      await ledger.write(lease, account, after);
    } catch (error) {
      if (LeaseholdError.is(error, 'STALE_TOKEN')) {
        await say({ type: 'refused', highest: (error as StaleTokenError).highest.fencingToken, ...work });
      }
      throw error;
    }
    await say({ type: 'written', after, ...work });
  }

  const worker = new LeasedWorker<Payment, void>('payments', pay, {
    connection: { url: setting.url },
    prefix: setting.prefix,
    // As short as the lease: a job whose owner died comes again after 2 to 3 s.
    lockDuration: TTL_MS,
    stalledInterval: 1000,
    maxStalledCount: 10,
    lease: { resource: (job) => job.data.account, manager: leases, fences: ledger.fences },
  });
  worker.on('leaseBusy', (job, holder) => {
    void say({ type: 'busy', holder: holder?.owner ?? 'nobody', job: job.id ?? '', ...job.data });
  });
  worker.on('leaseLost', (job, { reason }) => void say({ type: 'lost', reason, ...workOf(job) }));
  worker.on('completed', (job) => void say({ type: 'done', job: job.id ?? '' }));
  for (const event of ['error', 'failed'] as const) {
    worker.on(event, (...args: unknown[]) => {
      const error = args.find((arg) => arg instanceof Error);
      void say({ type: 'trouble', message: `${event}: ${error?.message}` });
    });
  }
  return worker;
}

function workOf(job: LeasedJob<Payment>): Payment & { readonly job: string; readonly token: number } {
  return { job: job.id ?? '', token: job.lease.fencingToken, ...job.data };
}

/** Stops this process until somebody sends SIGCONT, as a debugger, a full swap or the move of a virtual machine would. */
function stopHere(): number {
  const begin = Date.now();
  process.kill(process.pid, 'SIGSTOP');
  // The signal may take a moment to arrive; nothing else may run here until it has.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  return Date.now() - begin;
}
