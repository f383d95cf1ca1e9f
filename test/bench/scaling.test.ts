import { describe, expect, test } from 'vitest';

import { benchmarksNamed } from './catalog.ts';
import { curvePanel } from './curve.ts';
import { mastersFor, mastersToGain, mostLeases, needOf, splitOf, usPerExtension } from './scaling.ts';

/** Round ones, as no machine has them. */
const constants = {
  redisIdleUs: 1000,
  redisUsPerCommand: 50,
  redisUsPerExtension: 2,
  clientUsPerExtension: 3,
  clientUsPerExtensionFew: 30,
  inBytesPerExtension: 80,
  outBytesPerCommand: 50,
  clusterRedisUsPerExtension: 10,
  clusterClientUsPerExtension: 30,
  clusterInBytesPerExtension: 300,
  clusterOutBytesPerExtension: 70,
  redisUsPerPair: 40,
  clientUsPerPair: 60,
  inBytesPerPair: 1000,
  outBytesPerPair: 100,
  memoryPerLease: 2000,
  memoryPerLeaseCompact: 1000,
  memoryPerName: 2000,
  heapPerLease: 700,
  connectionsPerProcess: 2,
};
const fleet = { leases: 1_000_000, processes: 1000, ttlMs: 30_000 };

describe('what a fleet needs', () => {
  test('grows with the leases and falls with the ttl', () => {
    expect(needOf(fleet, constants)).toEqual({
      extensionsPerSecond: 100_000,
      fewestCommands: 200,
      mostCommands: 2200,
      leastRedisPercent: 21.1,
      redisPercent: 31.1,
      leastClientPercentEach: 0.03,
      clientPercentEach: 0.3,
      inBytesPerSecond: 8_000_000,
      outBytesPerSecond: 110_000,
      memory: 2e9,
      memoryCompact: 1e9,
      heapEach: 700_000,
      connections: 2000,
    });
    expect(needOf({ ...fleet, ttlMs: 60_000 }, constants)).toMatchObject({ redisPercent: 15.6, memory: 2e9 });
    expect(needOf({ ...fleet, leases: 2_000_000 }, constants)).toMatchObject({ leastRedisPercent: 42.1, memory: 4e9 });
  });

  test('no process sends more commands than it has leases', () => {
    const { fewestCommands, mostCommands } = needOf({ leases: 1000, processes: 1000, ttlMs: 30_000 }, constants);
    expect([fewestCommands, mostCommands]).toEqual([100, 100]);
  });

  test('an acquisition is two commands on top, and costs as much as many extensions', () => {
    const [without, its] = [needOf(fleet, constants), needOf({ ...fleet, acquisitionsPerSecond: 1000 }, constants)];
    expect(its.fewestCommands - without.fewestCommands).toBe(2000);
    expect(its.mostCommands - without.mostCommands).toBe(2000);
    expect(its.redisPercent - without.redisPercent).toBeCloseTo(4);
    expect(its.clientPercentEach - without.clientPercentEach).toBeCloseTo(0.006);
    expect(its.inBytesPerSecond - without.inBytesPerSecond).toBe(1_000_000);
    expect(its.outBytesPerSecond - without.outBytesPerSecond).toBe(100_000);
  });

  test('many small processes cost Redis more, because fewer leases share a command', () => {
    const small = { ...fleet, processes: 100_000 };
    expect(usPerExtension(fleet, constants)).toBeCloseTo(2 + 0.022 * 50);
    expect(usPerExtension(small, constants)).toBe(52);
    expect(needOf(small, constants).redisPercent).toBeCloseTo(520.1);
  });

  test('two levels tell what a command costs from what a lease in it does, without what Redis spends on nothing', () => {
    const level = (perSecond: number, leasesPerCommand: number) => ({
      ...{ perSecond, leasesPerCommand },
      usPerExtension: 2 + 50 / leasesPerCommand + 1000 / perSecond,
    });
    const { redisUsPerCommand, redisUsPerExtension } = splitOf(level(3000, 400), level(500, 5), 1000);
    expect(redisUsPerCommand).toBeCloseTo(50);
    expect(redisUsPerExtension).toBeCloseTo(2);
  });

  test('half of a core is what a Redis may use, and a Cluster must make up for commands of one lease', () => {
    expect(mostLeases(30_000, constants.redisUsPerExtension)).toBe(2_500_000);
    expect(mastersFor(fleet, constants)).toBe(2);
    expect(mastersFor({ ...fleet, leases: 1_000_001 }, constants)).toBe(3);
    // An extension is 3.1 µs to one Redis, with its part of the command.
    expect(mastersToGain(fleet, constants)).toBe(4);
  });
});

test('one word names all benchmarks of size, and a word that names none is refused', async () => {
  const named = await benchmarksNamed(['scale']);
  expect(named.map(({ name }) => name)).toEqual(['scale-leases', 'scale-names', 'scale-waiters', 'scale-distance']);
  await expect(benchmarksNamed(['size'])).rejects.toThrow('no benchmark is called size');
});

describe('a curve', () => {
  const drawn = (points: readonly (readonly [number, number])[]): string =>
    curvePanel({ title: 'A', x: 'leases', y: 'ms', lines: [{ name: 'ours', points }] }, 20).join('\n');

  test('is drawn by powers of ten where it spans more than thirty times', () => {
    const panel = drawn([
      [1000, 1],
      [10_000, 10],
      [100_000, 100],
    ]);
    expect(panel).toContain('logarithmic across and up');
    const [, ...places] = /points="(\S+) (\S+) (\S+)"/.exec(panel) ?? [];
    const [first, second, third] = places.map((place) => place.split(',').map(Number)) as [number, number][];
    expect(second![0] - first![0]).toBeCloseTo(third![0] - second![0], 0);
    expect(first![1] - second![1]).toBeCloseTo(second![1] - third![1], 0);
  });

  test('begins at nothing otherwise, and names its last value', () => {
    const panel = drawn([
      [0, 5],
      [10, 50],
    ]);
    expect(panel).not.toContain('logarithmic');
    expect(panel).toContain('ours: 50.0');
  });
});
