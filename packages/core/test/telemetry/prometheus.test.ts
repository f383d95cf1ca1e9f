import { channel } from 'node:diagnostics_channel';
import { MemoryFence, type Lease } from '@leasehold/core';
import { collectLeaseMetrics } from '@leasehold/core/prometheus';
import { Gauge, Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';

import { bench, deferred, outcomeOf } from '../lease/setup.ts';

function line(body: string, start: string): string | undefined {
  return body
    .split('\n')
    .find((each) => each.startsWith(`${start} `))
    ?.slice(start.length + 1);
}

describe('collectLeaseMetrics', () => {
  test('counts operations and observes how long was waited and held, by the class of a resource', async () => {
    const { manager, clock } = bench();
    const register = new Registry();
    collectLeaseMetrics(manager, { register });
    await manager.run('customer:42', () => clock.advanceAsync(2000));
    await manager.run('customer:43', async () => {});
    await manager.run('reports', async () =>
      expect(await manager.tryRun('reports', { detached: true }, () => 0)).toMatchObject({ ran: false }),
    );

    const body = await register.metrics();
    expect(line(body, 'leasehold_operations_total{operation="acquire",outcome="granted"}')).toBe('3');
    expect(line(body, 'leasehold_operations_total{operation="acquire",outcome="busy"}')).toBe('1');
    expect(line(body, 'leasehold_operations_total{operation="extend",outcome="extended"}')).toBe('2');
    expect(line(body, 'leasehold_operations_total{operation="release",outcome="released"}')).toBe('3');
    expect(line(body, 'leasehold_operations_total{operation="expire",outcome="lost"}')).toBe('0');
    expect(line(body, 'leasehold_hold_seconds_sum{class="customer"}')).toBe('2');
    expect(line(body, 'leasehold_hold_seconds_count{class="customer"}')).toBe('2');
    expect(line(body, 'leasehold_wait_seconds_count{class="reports"}')).toBe('1');
    expect(line(body, 'leasehold_operation_duration_seconds_count{operation="acquire"}')).toBe('4');
    expect(line(body, 'leasehold_store_up')).toBe('1');
  });

  test('gauges are what the manager holds now; a body beyond its lease is a zombie', async () => {
    const { manager, clock, store } = bench();
    const register = new Registry();
    collectLeaseMetrics(manager, { register });
    const begun = deferred();
    const end = deferred();
    const run = outcomeOf(
      manager.run('customer:42', () => {
        begun.resolve();
        return end.promise;
      }),
    );
    await begun.promise;
    expect(line(await register.metrics(), 'leasehold_held{class="customer"}')).toBe('1');
    expect(Number(line(await register.metrics(), 'leasehold_ttl_refresh_ratio'))).toBeCloseTo(3);

    store.partition();
    await clock.advanceAsync(2100);
    const late = await register.metrics();
    expect(Number(line(late, 'leasehold_last_extension_age_ratio'))).toBeCloseTo(2.1);
    expect(line(late, 'leasehold_store_up')).toBe('0');
    await clock.advanceAsync(900);
    const after = await register.metrics();
    expect(line(after, 'leasehold_held{class="customer"}')).toBeUndefined();
    expect(line(after, 'leasehold_zombies{class="customer"}')).toBe('1');
    expect(line(after, 'leasehold_lost_total{class="customer",reason="store-unreachable"}')).toBe('1');
    expect(line(after, 'leasehold_operations_total{operation="expire",outcome="lost"}')).toBe('1');
    end.resolve();
    await run;
    expect(line(await register.metrics(), 'leasehold_zombies{class="customer"}')).toBeUndefined();
  });

  test('a gauge whose reading finds a lease lost, and is read by a listener to that, counts no lease twice', async () => {
    const { manager, clock } = bench();
    const register = new Registry();
    collectLeaseMetrics(manager, { register });
    await manager.acquire('short:1', { ttl: '1s' });
    const lease = await manager.acquire('long:1', { ttl: '1m' });
    const inside: Promise<string>[] = [];
    manager.on('lost', () => void inside.push(register.metrics()));
    clock.block(1000);
    const body = await register.metrics();
    expect(inside).toHaveLength(1);
    for (const each of [body, await inside[0]]) {
      expect(line(each ?? '', 'leasehold_held{class="long"}')).toBe('1');
      expect(line(each ?? '', 'leasehold_held{class="short"}')).toBeUndefined();
    }
    await lease.release();
  });

  test('what a process measures of itself is there, each in seconds, and what is not known has no sample', async () => {
    const { manager, clock, store } = bench();
    // A store whose clock is ahead by a tenth of a second.
    const extend = store.extend.bind(store);
    store.extend = (items, call) => extend(items, { ...call, told: (us) => call.told?.(us + 100_000) });
    const register = new Registry();
    collectLeaseMetrics(manager, { register });
    const read = async (): Promise<Record<string, number | undefined>> => {
      const body = await register.metrics();
      const names = ['pause', 'round_trip', 'clock_step', 'suspend'].map((name) => `worst_${name}_seconds`);
      const all = [
        ...names,
        'worst_extension_ratio',
        'clock_offset_seconds',
        'ttl_seconds',
        'shortest_safe_ttl_seconds',
      ];
      return Object.fromEntries(
        all.map((name) => {
          const value = line(body, `leasehold_${name}`);
          return [name, value === undefined ? undefined : Number(value)];
        }),
      );
    };
    expect(await read()).toEqual({
      ...{ worst_pause_seconds: 0, worst_round_trip_seconds: 0, worst_clock_step_seconds: 0, worst_suspend_seconds: 0 },
      ...{ worst_extension_ratio: 0, clock_offset_seconds: undefined, ttl_seconds: 3, shortest_safe_ttl_seconds: 1 },
    });
    const lease = await manager.acquire('customer:42');
    store.once('extend', { reply: 120 });
    await clock.advanceAsync(1200);
    clock.block(800);
    await clock.advanceAsync(100);
    clock.suspend(300);
    await clock.advanceAsync(100);
    clock.stepWall(-400);
    await clock.advanceAsync(1000);
    const after = await read();
    expect(after).toMatchObject({ worst_round_trip_seconds: 0.12, worst_clock_step_seconds: 0.4 });
    expect(after['worst_suspend_seconds']).toBeCloseTo(0.3);
    expect(after['worst_pause_seconds']).toBeGreaterThan(0.7);
    expect(after['worst_pause_seconds']).toBeLessThanOrEqual(0.8);
    expect(after['worst_extension_ratio']).toBeGreaterThan(0.33);
    expect(after['worst_extension_ratio']).toBeLessThan(0.8);
    expect(after['clock_offset_seconds']).toBeCloseTo(-0.1, 3);
    // 2 × (pause + 0.075 + 0.12 + 0.4), and some.
    expect(after['shortest_safe_ttl_seconds']).toBeGreaterThan(4);
    expect(after['ttl_seconds']).toBe(3);
    await lease.release();
    await clock.advanceAsync(11 * 60_000);
    expect((await read())['clock_offset_seconds']).toBeUndefined();
  });

  test('what a fence refuses is counted, and its exemplar says whose it was', async () => {
    const { manager } = bench({ owner: 'web-7f9c' });
    const register = new Registry();
    register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
    collectLeaseMetrics(manager, { register });
    const ledger = new MemoryFence({ name: 'ledger' });
    let lease: Lease | undefined;
    await outcomeOf(
      manager.run('customer:42', { fences: [ledger] }, async (own) => {
        lease = own;
        await ledger.seal(own.grant.resource, own.fencingToken + 1);
        await ledger.write(own, () => {});
      }),
    );
    const body = await register.metrics();
    const stale = body.split('\n').find((each) => each.startsWith('leasehold_stale_writes_total{fence="ledger"}'));
    expect(stale).toContain(`# {fence="${lease?.fencingToken}",lease_id="${lease?.leaseId}",owner="web-7f9c"} 1`);
    expect(line(body, 'leasehold_operations_total{operation="reject",outcome="stale"}')).toBe('1');
  });

  test('no label grows without bound, whatever the names are', async () => {
    const { manager } = bench();
    const register = new Registry();
    collectLeaseMetrics(manager, { register, resourceLabel: (resource) => resource });
    for (let each = 0; each < 150; each++) await manager.run(`customer:${each}`, async () => {});
    const classes = (await register.metrics())
      .split('\n')
      .filter((each) => each.startsWith('leasehold_hold_seconds_count'));
    expect(classes).toHaveLength(101);
    expect(classes.at(-1)).toBe('leasehold_hold_seconds_count{class="other"} 50');
  });

  test('a label function that throws costs its label, not the run', async () => {
    const { manager } = bench();
    const register = new Registry();
    collectLeaseMetrics(manager, {
      register,
      resourceLabel: () => {
        throw new Error('boom');
      },
    });
    expect(await manager.run('reports', () => 42)).toBe(42);
    expect(line(await register.metrics(), 'leasehold_hold_seconds_count{class="other"}')).toBe('1');
  });

  test('so does one that is async and fails: nothing is left that nobody handles', async () => {
    const { manager } = bench();
    const register = new Registry();
    const resourceLabel = (async () => Promise.reject(new Error('boom'))) as unknown as () => string;
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): number => unhandled.push(reason);
    process.on('unhandledRejection', listen);
    try {
      collectLeaseMetrics(manager, { register, resourceLabel });
      expect(await manager.run('reports', () => 42)).toBe(42);
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off('unhandledRejection', listen);
    }
    expect(unhandled).toEqual([]);
    expect(line(await register.metrics(), 'leasehold_hold_seconds_count{class="other"}')).toBe('1');
  });

  test('an option that is none, or a name that the registry has already: refused with its name, and nothing is registered', async () => {
    const { manager } = bench();
    for (const [options, option] of [
      [{ register: {} }, 'register'],
      [{ register: null }, 'register'],
      [{ prefix: '1x' }, 'prefix'],
      [{ prefix: 'a b' }, 'prefix'],
      [{ resourceLabel: 5 }, 'resourceLabel'],
      [{ labels: {} }, 'labels'],
    ] as const) {
      const collect = (): unknown => collectLeaseMetrics(manager, options as object);
      expect(collect).toThrow(expect.objectContaining({ code: 'CONFIG', option }));
    }
    const register = new Registry();
    new Gauge({ name: 'leasehold_ttl_seconds', help: 'of the application', registers: [register] });
    const collect = (): unknown => collectLeaseMetrics(manager, { register });
    expect(collect).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'prefix' }));
    expect(register.getMetricsAsArray().map(({ name }) => name)).toEqual(['leasehold_ttl_seconds']);
    expect(manager.listenerCount('operation')).toBe(0);
  });

  test('ended, it listens no more, and its names are free for the next', async () => {
    const { manager } = bench();
    const register = new Registry();
    const end = collectLeaseMetrics(manager, { register });
    expect(manager.listenerCount('operation')).toBe(1);
    end();
    expect(manager.listenerCount('operation')).toBe(0);
    expect(await register.metrics()).toBe('\n');
    collectLeaseMetrics(manager, { register });
  });
});

test('every event is published on a channel of its own, with the manager it is of', async () => {
  const { manager } = bench();
  const seen: object[] = [];
  const listen = (message: unknown): number => seen.push(message as object);
  for (const name of ['acquired', 'operation', 'released']) channel(`leasehold:${name}`).subscribe(listen);
  try {
    await manager.run('reports', async () => {});
  } finally {
    for (const name of ['acquired', 'operation', 'released']) channel(`leasehold:${name}`).unsubscribe(listen);
  }
  await manager.run('reports', async () => {});
  const origin = { namespace: 'leasehold', owner: manager.owner.instance };
  expect(seen).toEqual([
    expect.objectContaining({ operation: 'acquire', outcome: 'granted', leases: 1, ...origin }),
    expect.objectContaining({ resource: 'reports', waitedMs: 0, ...origin }),
    expect.objectContaining({ operation: 'release', outcome: 'released', ...origin }),
    expect.objectContaining({ resource: 'reports', heldMs: 0, ...origin }),
  ]);
});
