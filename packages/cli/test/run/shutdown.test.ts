import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { pino } from 'pino';
import { expect, test } from 'vitest';

import { Health } from '../../src/run/health.ts';
import { Metrics } from '../../src/run/metrics.ts';
import { Runs } from '../../src/run/runs.ts';
import { shutDown } from '../../src/run/shutdown.ts';
import { recordingLog } from './support/log.ts';

test('a run that ignores its signal is left behind after its time, its lease not released', async () => {
  const { log, lines } = recordingLog();
  const store = new FaultyStore(new MemoryLeaseStore());
  const manager = new LeaseManager({ store, logger: pino({ level: 'silent' }) });
  const metrics = new Metrics();
  const runs = new Runs(log, metrics);
  const health = new Health(manager, 1000, log, metrics);
  const lease = await manager.acquire('stuck');
  const never = new Promise<never>(() => {});
  const run = { tick: null, trigger: 'interval', attempt: 1 } as const;
  const job = { name: 'stuck', id: null, data: undefined };
  void runs.perform({ handler: () => never, job, run, lease, signal: lease.signal, fences: {}, patienceMs: 1000 });
  const order: string[] = [];
  const closed = await shutDown(
    {
      health,
      trades: [{ start: () => {}, stop: () => never }],
      runs,
      manager,
      closables: [
        { what: 'fence ledger', close: async () => order.push('fence') },
        { what: 'fence broken', close: () => Promise.reject(new Error('no')) },
      ],
      server: { close: async () => void order.push('server') },
    },
    { graceMs: 10, settleMs: 10 },
    log,
  );
  expect(closed).toEqual({ unsettled: 1 });
  expect(order).toEqual(['fence', 'server']);
  expect(store.calls.release).toBe(0);
  const said = lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  expect(said).toEqual([
    'the grace is over, runs are aborted; waiting for 1 run, 1 s left',
    '1 run ignored the signal and is left behind; its lease runs out by itself',
  ]);
});

test('a part that fails to stop is told of, and the rest is closed', async () => {
  const { log, lines } = recordingLog();
  const manager = new LeaseManager({ store: new MemoryLeaseStore() });
  const metrics = new Metrics();
  const order: string[] = [];
  const trades = [
    { start: () => {}, stop: () => Promise.reject(new Error('broken')) },
    { start: () => {}, stop: async () => order.push('other trade') },
  ];
  const closed = await shutDown(
    {
      health: new Health(manager, 1000, log, metrics),
      trades,
      runs: new Runs(log, metrics),
      manager,
      closables: [],
      server: { close: async () => void order.push('server') },
    },
    { graceMs: 1000, settleMs: 1000 },
    log,
  );
  expect(closed).toEqual({ unsettled: 0 });
  expect(order).toEqual(['other trade', 'server']);
  const failures = lines.filter(({ level }) => level >= 50);
  expect(failures).toMatchObject([{ msg: 'a part of the shutdown failed', err: { message: 'broken' } }]);
});
