// What 10,000 held leases cost their process and Redis, against the floor: one script for 500 keys, called as often.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { startRedis } from '../support/redis-server.ts';

const LEASES = 10_000;
const TTL_MS = 6000;
const SLICE_MS = 6000;
const ROUNDS = Number(process.env['ROUNDS'] ?? '4');

interface Cost {
  readonly clientMs: number;
  readonly redisMs: number;
  readonly extends: number;
  readonly delayP99Ms: number;
}

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const raw = new Redis(server.url);
raw.on('error', () => {});

async function redisCpuMs(): Promise<number> {
  const info = await raw.info('cpu');
  const of = (name: string): number => Number(new RegExp(`used_cpu_${name}:([\\d.]+)`).exec(info)?.[1] ?? '0') * 1000;
  return of('user') + of('sys');
}

async function measure(count: () => number, work: () => Promise<unknown>): Promise<Cost> {
  const delay = monitorEventLoopDelay({ resolution: 2 });
  const [cpu, redis, before] = [process.cpuUsage(), await redisCpuMs(), count()];
  delay.enable();
  await work();
  delay.disable();
  const used = process.cpuUsage(cpu);
  return {
    clientMs: (used.user + used.system) / 1000,
    redisMs: (await redisCpuMs()) - redis,
    extends: count() - before,
    delayP99Ms: delay.percentile(99) / 1e6,
  };
}

const sleep = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms));

// The floor: 500 owner-checked extensions in one script, a third of the ttl apart, 20 scripts a round.
const FLOOR = `local n = 0 for i = 1, #KEYS do if redis.call('GET', KEYS[i]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[i], ARGV[2]) n = n + 1 end end return n`;
raw.defineCommand('extendMany', { lua: FLOOR });
const extendMany = (raw as unknown as { extendMany(...args: (string | number)[]): Promise<number> }).extendMany.bind(
  raw,
);
const keys = Array.from({ length: LEASES }, (_, index) => `floor:${index}`);
for (let from = 0; from < LEASES; from += 500) {
  await Promise.all(keys.slice(from, from + 500).map((key) => raw.set(key, 'mine', 'PX', 60_000)));
}
let floorExtends = 0;
async function floor(): Promise<void> {
  const until = performance.now() + SLICE_MS;
  const batches = LEASES / 500;
  for (let batch = 0; performance.now() < until; batch = (batch + 1) % batches) {
    floorExtends += await extendMany(500, ...keys.slice(batch * 500, batch * 500 + 500), 'mine', 60_000);
    await sleep(TTL_MS / 3 / batches);
  }
}

async function holdMany(): Promise<{ leases: LeaseManager; held: Lease[]; heapBytes: number }> {
  const leases = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const held: Lease[] = [];
  for (let from = 0; from < LEASES; from += 500) {
    held.push(...(await Promise.all(Array.from({ length: 500 }, (_, index) => leases.acquire(`r${from + index}`)))));
    await sleep(TTL_MS / 3 / (LEASES / 500));
  }
  globalThis.gc?.();
  return { leases, held, heapBytes: (process.memoryUsage().heapUsed - before) / LEASES };
}

const rows: { floor: Cost; held: Cost }[] = [];
let heap = 0;
for (let round = 0; round < ROUNDS; round++) {
  const floorCost = await measure(() => floorExtends, floor);
  const { leases, held, heapBytes } = await holdMany();
  heap = heapBytes;
  let extended = 0;
  // Counted by the record, because a listener for 10,000 leases would be part of what is measured.
  const extensions = async (): Promise<void> => {
    extended = 0;
    const pipeline = raw.pipeline();
    for (let index = 0; index < LEASES; index++) pipeline.hget(`leasehold:{r${index}}`, 'extensions');
    for (const [, value] of (await pipeline.exec()) ?? []) extended += Number(value);
  };
  await extensions();
  const cost = await measure(
    () => 0,
    () => sleep(SLICE_MS),
  );
  const before = extended;
  await extensions();
  if (!held.every((lease) => lease.isHeld())) throw new Error('leases were lost');
  rows.push({ floor: floorCost, held: { ...cost, extends: extended - before } });
  await Promise.all(held.map((lease) => lease.release()));
  await leases.close();
}

const perExtend = (cost: Cost, part: 'clientMs' | 'redisMs'): number => (cost[part] * 1000) / cost.extends;
const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
console.log(`\n${LEASES} leases of ${TTL_MS} ms, ${ROUNDS} rounds of ${SLICE_MS} ms, µs of CPU for each extension`);
for (const part of ['clientMs', 'redisMs'] as const) {
  const own = median(rows.map(({ held }) => perExtend(held, part)));
  const base = median(rows.map(({ floor: cost }) => perExtend(cost, part)));
  const ratio = median(rows.map(({ held, floor: cost }) => perExtend(held, part) / perExtend(cost, part)));
  console.log(
    `${part.replace('Ms', '').padEnd(6)}  floor ${base.toFixed(2)}   held ${own.toFixed(2)}   ratio ${ratio.toFixed(2)}`,
  );
}
console.log(
  `loop delay p99: floor ${median(rows.map(({ floor: c }) => c.delayP99Ms)).toFixed(1)} ms, held ${median(rows.map(({ held: c }) => c.delayP99Ms)).toFixed(1)} ms`,
);
console.log(
  `heap: ${Math.round(heap)} bytes a lease${globalThis.gc === undefined ? ' (without --expose-gc: not exact)' : ''}`,
);
raw.disconnect();
