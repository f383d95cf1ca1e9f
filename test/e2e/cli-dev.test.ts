import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { connectRedis } from '../support/redis-client.ts';
import { callCli, startCli, type CliProcess } from './fixtures/cli-process.ts';

interface Place extends Disposable {
  readonly folder: string;
  readonly file: string;
}

/** A config whose Redis is nowhere, and a PATH with nothing in it. */
function place(): Place {
  const folder = guardedFolder('cli-dev');
  const file = join(folder, 'leasehold.yaml');
  writeFileSync(join(folder, 'jobs.mjs'), "export default ({ job, log }) => log.info({ its: job }, 'did it');\n");
  const jobs = {
    often: { every: '1h', handler: './jobs.mjs', lease: { fences: [] } },
    pay: { queue: 'pay', handler: './jobs.mjs', lease: { resource: 'customer:{data.customerId}' } },
  };
  writeFileSync(file, JSON.stringify({ version: 1, store: { redis: 'redis://127.0.0.1:1' }, jobs }));
  return { folder, file, [Symbol.dispose]: () => removeFolder(folder) };
}

function lineWith({ stdout }: CliProcess, text: string): Record<string, unknown> {
  const line = stdout.split('\n').find((its) => its.includes(text)) ?? '{}';
  return JSON.parse(line) as Record<string, unknown>;
}

test('run --dev starts a redis-server of its own for leases and queues, which ends with it', async () => {
  using at = place();
  const temporary = join(at.folder, 'tmp');
  mkdirSync(temporary);
  const binary = find('redis', thisMachine).path ?? '';
  symlinkSync(binary, join(at.folder, 'redis-server'));
  const env = { ...environmentOf(binary), NODE_ENV: 'test', PATH: at.folder, TMPDIR: temporary };
  await using cli = startCli(['run', '--dev', at.file], { env });
  await cli.wrote('"its":{"name":"often","id":null}');
  const { redis } = lineWith(cli, 'a private redis-server') as { readonly redis: string };
  expect(redis).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
  const folders = (): string[] => readdirSync(temporary).filter((name) => name.startsWith('leasehold-dev-'));
  expect(folders()).toHaveLength(1);
  const queue = new Queue('pay', { connection: { url: redis } });
  queue.on('error', () => {});
  await queue.add('charge', { customerId: 42 });
  await cli.wrote('"its":{"name":"pay","id":"1","data":{"customerId":42}}');
  await queue.close();
  cli.kill('SIGTERM');
  expect(await cli.end).toMatchObject({ code: 0, stderr: '' });
  await expect(connectRedis(redis, { retryStrategy: () => null })).rejects.toThrow();
  expect(folders()).toEqual([]);
});

test('run --dev without a redis-server says so, runs what has a schedule on leases in memory, and leaves queues out', async () => {
  using at = place();
  await using cli = startCli(['run', '--dev', at.file], { env: { NODE_ENV: 'test', PATH: at.folder } });
  await cli.wrote('"its":{"name":"often","id":null}');
  expect(lineWith(cli, 'there is no redis-server')).toMatchObject({ level: 40, leftOut: ['pay'] });
  cli.kill('SIGTERM');
  expect(await cli.end).toMatchObject({ code: 0, stderr: '' });
});

test('run --dev is refused in production, and where nothing could run', async () => {
  using at = place();
  expect(await callCli(['run', '--dev', at.file], { NODE_ENV: 'production' })).toMatchObject({ code: 2 });
  const queues = await callCli(['run', '--dev', '--only', 'pay', at.file], { PATH: at.folder });
  expect(queues).toMatchObject({ code: 4, stderr: expect.stringContaining('all jobs need one') });
});
