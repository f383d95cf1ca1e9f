import { existsSync } from 'node:fs';
import { expect, inject, test } from 'vitest';

import { connectRedis, uniqueName } from './redis-client.ts';
import { startRedis } from './redis-server.ts';
import { isAlive } from './signals.ts';

test('the shared server is there', async () => {
  await using client = await connectRedis(inject('redisUrl'));
  const key = uniqueName();
  await client.set(key, 'x', 'PX', 1_000);
  expect(await client.get(key)).toBe('x');
});

test('a throw-away server takes arguments, and leaves nothing behind', async () => {
  const server = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
  {
    await using client = await connectRedis(server.url);
    expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'allkeys-lru']);
  }
  await server.stop();
  expect(isAlive(server.pid)).toBe(false);
  expect(existsSync(server.dir)).toBe(false);
});

test('a paused server says nothing and then executes what came meanwhile', async () => {
  await using server = await startRedis();
  await using client = await connectRedis(server.url);
  await server.pause();
  const reply = client.incr('n');
  const winner = await Promise.race([reply, new Promise((resolve) => setTimeout(resolve, 100, 'silence'))]);
  expect(winner).toBe('silence');
  server.resume();
  expect(await reply).toBe(1);
});

test('restart keeps the port; what was persisted survives a kill, what was not does not', async () => {
  await using server = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
  const before = server.pid;
  {
    await using client = await connectRedis(server.url);
    await client.set('kept', '1');
  }
  await server.kill();
  expect(isAlive(before)).toBe(false);
  await server.restart();
  expect(server.pid).not.toBe(before);
  {
    await using client = await connectRedis(server.url);
    expect(await client.get('kept')).toBe('1');
  }
  await server.restart([]);
  await using client = await connectRedis(server.url);
  expect(await client.get('kept')).toBeNull();
});

test('arguments that the server does not know are reported with its own words', async () => {
  await expect(startRedis({ args: ['--no-such-setting', '1'] })).rejects.toThrow(/no-such-setting/);
});

test('twenty servers at once get a port each', async () => {
  const servers = await Promise.all(Array.from({ length: 20 }, () => startRedis()));
  expect(new Set(servers.map(({ port }) => port)).size).toBe(20);
  await Promise.all(servers.map((server) => server.stop()));
});
