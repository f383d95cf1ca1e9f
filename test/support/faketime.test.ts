import { readdirSync } from 'node:fs';
import { expect } from 'vitest';

import { startChild } from './child.ts';
import { FakeTime } from './faketime.ts';
import { testNeeding } from './needing.ts';
import { connectRedis } from './redis-client.ts';
import { startRedis } from './redis-server.ts';

interface Clocks {
  readonly wall: number;
  readonly steady: number;
}

const minute = 60_000;
const tolerance = 5_000;

testNeeding(
  'libfaketime',
  'the wall clock of a child steps forward and back, its monotonic clock does not',
  async () => {
    using time = new FakeTime();
    await using child = startChild(new URL('./fixtures/talker.ts', import.meta.url), { env: time.env });
    await child.next('ready');
    const clocks = () => {
      child.send('order', { text: 'clocks' });
      return child.next<Clocks>('echo');
    };
    const first = await clocks();
    expect(Math.abs(first.wall - Date.now())).toBeLessThan(tolerance);
    time.step(minute);
    const ahead = await clocks();
    expect(Math.abs(ahead.wall - Date.now() - minute)).toBeLessThan(tolerance);
    time.step(-minute);
    const behind = await clocks();
    expect(Math.abs(behind.wall - Date.now() + minute)).toBeLessThan(tolerance);
    expect(behind.steady - first.steady).toBeLessThan(tolerance);
  },
);

testNeeding('libfaketime', 'the clock of a redis-server steps, and its keys with it', async () => {
  using time = new FakeTime();
  await using server = await startRedis({ faketime: time });
  await using client = await connectRedis(server.url);
  await client.set('key', 'x', 'PX', minute / 2);
  time.step(minute);
  const [seconds] = await client.time();
  expect(Math.abs(Number(seconds) * 1000 - Date.now() - minute)).toBeLessThan(tolerance);
  expect(await client.get('key')).toBeNull();
});

testNeeding('libfaketime', 'a killed process leaves nothing in shared memory', async () => {
  using time = new FakeTime();
  const child = startChild(new URL('./fixtures/idle.ts', import.meta.url), { env: time.env });
  await child.next('ready');
  await child.kill9();
  const names = process.platform === 'linux' ? readdirSync('/dev/shm') : [];
  expect(names.filter((name) => name.includes(`${child.pid}`))).toEqual([]);
});
