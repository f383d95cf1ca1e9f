import { fileURLToPath } from 'node:url';

import { Queue } from 'bullmq';
import { expect, inject, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { uniqueName } from '../support/redis-client.ts';

const FILE = fileURLToPath(new URL('./fixtures/run-config/isolated.yaml', import.meta.url));
const IN_THREADS = new URL('./fixtures/run-config/tsx-in-threads.mjs', import.meta.url);
const MEMBER = new URL('./fixtures/run-config/member.ts', import.meta.url);

interface Line {
  readonly msg: string;
  readonly [field: string]: unknown;
}

function linesOf(child: Child, msg: string): Line[] {
  return (child.unread as unknown as Line[]).filter((line) => line.msg === msg);
}

// For a busy machine: threads compile what they import.
vi.setConfig({ testTimeout: 60_000 });

test('isolated in threads: results and errors come back; a handler that blocks keeps its lease, is terminated after the grace, and the next tick runs elsewhere', async () => {
  const name = uniqueName('sums');
  const { hostname, port } = new URL(inject('redisUrl'));
  const queue = new Queue(name, { connection: { host: hostname, port: Number(port) } });
  const env = { REDIS_URL: inject('redisUrl'), PREFIX: uniqueName('config'), QUEUE: name };
  const start = (its: Readonly<Record<string, string>>): Child =>
    startChild(MEMBER, { args: [FILE], execArgv: ['--import', IN_THREADS.href], env: { ...env, ...its } });
  await using blocking = start({ BLOCKS: '1' });
  await using other = start({ WAITS: '1' });
  await queue.add('sum', { a: 1, b: 2 });
  await queue.add('sum', { a: 1 }, { attempts: 3 });
  await vi.waitFor(() => expect(linesOf(blocking, 'blocks still')).toHaveLength(1), 20_000);
  await vi.waitFor(async () => expect(await queue.getJobCountByTypes('completed', 'failed')).toBe(2), 20_000);
  expect(linesOf(blocking, 'blocks')).toMatchObject([{ isMainThread: false, job: 'stuck' }]);
  expect(linesOf(blocking, 'blocks still')).toMatchObject([{ isHeld: true }]);
  const [{ token }] = linesOf(blocking, 'run begins') as [Line];

  expect((await queue.getCompleted()).map(({ returnvalue }) => returnvalue as number)).toEqual([3]);
  const failed = { failedReason: 'there is no b', attemptsMade: 1 };
  expect(await queue.getFailed()).toMatchObject([failed]);

  other.send('go');
  await vi.waitFor(() => expect(linesOf(other, 'tick is skipped: held').length).toBeGreaterThan(0), 20_000);
  expect(linesOf(other, 'run begins')).toEqual([]);
  blocking.kill('SIGTERM');
  expect(await blocking.exit).toEqual({ code: 0, signal: null });
  expect(linesOf(blocking, 'handler ignores its signal; its thread is terminated')).toHaveLength(1);
  expect(linesOf(blocking, 'closed')).toMatchObject([{ unsettled: 0 }]);
  await vi.waitFor(() => expect(linesOf(other, 'run begins').length).toBeGreaterThan(0), 20_000);
  expect(linesOf(other, 'run begins')[0]?.['token']).toBeGreaterThan(token as number);
  await queue.obliterate({ force: true });
  await queue.close();
});
