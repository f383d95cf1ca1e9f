import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { callCli, startCli, type Result } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');

const HANDLERS = `
export const done = ({ job, run, lease, log }) => log.info({ job, run, on: lease.resource }, 'did it');
export const broken = () => { throw new Error('out of paper'); };
export const long = ({ signal, log }) => new Promise((resolve, reject) => {
  // A signal alone keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  signal.addEventListener('abort', () => { clearInterval(alive); reject(signal.reason); });
  log.info('it began');
});
`;

interface Place extends Disposable {
  readonly prefix: string;
  readonly file: string;
  readonly cli: (...args: string[]) => Promise<Result>;
}

function place(redis = redisUrl): Place {
  const prefix = uniqueName();
  const folder = guardedFolder('cli-trigger');
  const file = join(folder, 'leasehold.yaml');
  writeFileSync(join(folder, 'jobs.mjs'), HANDLERS);
  const jobs = {
    report: { cron: '0 3 * * *', timezone: 'UTC', handler: './jobs.mjs#done', lease: { resource: 'reports' } },
    broken: { every: '1h', handler: './jobs.mjs#broken' },
    long: { every: '1h', handler: './jobs.mjs#long', lease: { resource: 'slow', ttl: '1s' } },
    pay: { queue: 'pay', prefix, handler: './jobs.mjs#done', lease: { resource: 'customer:{data.customerId}' } },
  };
  writeFileSync(file, JSON.stringify({ version: 1, store: { redis, prefix }, jobs }));
  return {
    prefix,
    file,
    cli: (...args) => callCli(args),
    [Symbol.dispose]: () => removeFolder(folder),
  };
}

function logged({ stdout }: Result): { readonly msg: string }[] {
  const lines = stdout.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as { readonly msg: string });
}

describe('a job of a schedule, run by its name,', () => {
  test.each([['trigger', 'report'] as const, ['run', '--once', 'report'] as const])(
    'runs once, under its lease and without a tick: leasehold %s %s',
    async (...command) => {
      using at = place();
      const result = await at.cli(...command, at.file);
      expect(result).toMatchObject({ code: 0 });
      expect(logged(result)).toContainEqual(
        expect.objectContaining({
          msg: 'did it',
          on: 'reports',
          job: { name: 'report', id: null },
          run: { tick: null, trigger: 'manual', attempt: 1 },
        }),
      );
    },
  );

  test('is not run while another has its lease: 75; if it fails it ends with 1', async () => {
    using at = place();
    await using manager = new LeaseManager({ store: redisStore(redisUrl, { prefix: at.prefix }) });
    await using _lease = await manager.acquire('reports');
    const busy = await at.cli('run', '--once', 'report', at.file);
    expect(busy).toMatchObject({ code: 75, stderr: expect.stringContaining('RESOURCE_BUSY reports') });
    expect(busy.stdout).not.toContain('did it');
    expect(await at.cli('trigger', 'broken', at.file)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('out of paper'),
    });
  });

  test('ends with 76 if its lease is lost', async () => {
    using at = place();
    await using cli = startCli(['run', '--once', 'long', at.file]);
    await cli.wrote('it began');
    await using redis = await connectRedis(redisUrl);
    expect(await redis.del(`${at.prefix}:{slow}`)).toBe(1);
    expect(await cli.end).toMatchObject({ code: 76, stderr: expect.stringContaining('LEASE_LOST') });
  });

  test('ends with 143 at SIGTERM, after the handler has seen its signal, and leaves its lease free', async () => {
    using at = place();
    await using cli = startCli(['trigger', 'long', at.file]);
    await cli.wrote('it began');
    cli.kill('SIGTERM');
    expect(await cli.end).toMatchObject({ code: 143, stdout: expect.stringContaining('run gave up') });
    await using manager = new LeaseManager({ store: redisStore(redisUrl, { prefix: at.prefix }) });
    expect(await manager.inspect('slow')).toMatchObject({ state: 'free' });
  });

  test('takes no data', async () => {
    using at = place();
    expect(await at.cli('trigger', 'report', at.file, '--data', '1')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('are for queues'),
    });
  });
});

describe('a queue that is triggered', () => {
  test('gets one job with its data, whose id is printed; one with an id that is there is not added again', async () => {
    using at = place();
    await using queue = disposable(new Queue('pay', { connection: { url: redisUrl }, prefix: at.prefix }));
    const data = '{"customerId":42}';
    const first = await at.cli('trigger', 'pay', at.file, '--data', data);
    expect(first).toMatchObject({ code: 0, stderr: expect.stringContaining('queue pay') });
    expect(await queue.its.getJob(first.stdout.trimEnd())).toMatchObject({ name: 'pay', data: { customerId: 42 } });

    const named = ['trigger', 'pay', at.file, '--data', data, '--job-id', 'of-42'];
    const json = await at.cli(...named, '--json');
    expect(JSON.parse(json.stdout)).toEqual({
      schema: 'leasehold/triggered/v1',
      job: 'pay',
      queue: 'pay',
      id: 'of-42',
    });
    expect(await at.cli(...named)).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('already') });
    expect(await queue.its.count()).toBe(2);
    await queue.its.obliterate({ force: true });
  });

  test('is refused what its worker would fail, and is not run in this process', async () => {
    using at = place();
    const refused = await at.cli('trigger', 'pay', at.file, '--data', '{"customer":42}');
    expect(refused).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('{data.customerId} is missing'),
    });
    const id = await at.cli('trigger', 'pay', at.file, '--data', '{"customerId":42}', '--job-id', '7');
    expect(id).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Custom Id') });
    const once = await at.cli('run', '--once', 'pay', at.file);
    expect(once).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('as leasehold trigger does') });
  });

  test('ends with 4 if the queue is out of reach, and shows no password', async () => {
    using at = place('redis://:secret@127.0.0.1:1/0');
    const { code, stdout, stderr } = await at.cli('trigger', 'pay', at.file, '--data', '{"customerId":42}');
    expect({ code, stdout }).toEqual({ code: 4, stdout: '' });
    expect(stderr).toContain('cannot reach redis://127.0.0.1:1/0');
    expect(stderr).not.toContain('secret');
  });
});

function disposable(its: Queue): AsyncDisposable & { readonly its: Queue } {
  return { its, [Symbol.asyncDispose]: () => its.close() };
}
