import { Queue } from 'bullmq';
import { expect, inject, test, vi } from 'vitest';

import { processStatus } from '../../scripts/services/traces.mjs';
import { startChild, type Child } from '../support/child.ts';
import { configFile } from '../support/programs.ts';
import { uniqueName } from '../support/redis-client.ts';

const FILE = configFile(new URL('./fixtures/run-config/isolated.yaml', import.meta.url));
const MEMBER = new URL('./fixtures/run-config/member.ts', import.meta.url);

interface Line {
  readonly msg: string;
  readonly [field: string]: unknown;
}

function linesOf(child: Child, msg: string): Line[] {
  return (child.unread as unknown as Line[]).filter((line) => line.msg === msg);
}

// For a busy machine: threads compile what they import.
vi.setConfig({ testTimeout: 90_000 });

interface Places {
  readonly isolate: 'thread' | 'process';
  readonly start: (its?: Readonly<Record<string, string>>) => Child;
  /** That the handlers of the file take jobs from. */
  readonly queue: (its: 'sums' | 'ends') => Queue;
}

/** What one test shares: a prefix, queues, and a way to start processes on them. */
async function withPlaces(isolate: Places['isolate'], body: (places: Places) => Promise<void>): Promise<void> {
  const name = uniqueName('isolated');
  const { hostname, port } = new URL(inject('redisUrl'));
  const queues = new Map<string, Queue>();
  const queue = (its: 'sums' | 'ends'): Queue => {
    const full = its === 'sums' ? name : `${name}-ends`;
    const known = queues.get(full) ?? new Queue(full, { connection: { host: hostname, port: Number(port) } });
    queues.set(full, known);
    return known;
  };
  const env = { REDIS_URL: inject('redisUrl'), PREFIX: uniqueName('config'), QUEUE: name, ISOLATE: isolate };
  const start = (its: Readonly<Record<string, string>> = {}): Child =>
    startChild(MEMBER, {
      args: [FILE],
      env: { ...env, ...its },
      scope: 'file',
    });
  try {
    await body({ isolate, start, queue });
  } finally {
    for (const opened of queues.values()) {
      await opened.obliterate({ force: true });
      await opened.close();
    }
  }
}

/** Whether it can still do something: not one that has ended and that nobody has taken note of. */
function isLiving(pid: number): boolean {
  const state = processStatus(pid)?.state;
  return state !== undefined && state !== 'Z' && state !== 'X';
}

test.each(['thread', 'process'] as const)(
  'isolated in a %s: results and errors come back; a handler that blocks keeps its lease, is terminated after the grace, and the next tick runs elsewhere',
  (isolate) =>
    withPlaces(isolate, async ({ start, queue }) => {
      await using blocking = start({ BLOCKS: '1' });
      await using other = start({ WAITS: '1' });
      await queue('sums').add('sum', { a: 1, b: 2 });
      await queue('sums').add('sum', { a: 1 }, { attempts: 3 });
      await vi.waitFor(() => expect(linesOf(blocking, 'blocks still')).toHaveLength(1), 30_000);
      await vi.waitFor(
        async () => expect(await queue('sums').getJobCountByTypes('completed', 'failed')).toBe(2),
        30_000,
      );
      expect(linesOf(blocking, 'blocks')).toMatchObject([{ isMainThread: isolate === 'process', job: 'stuck' }]);
      const [{ pid }] = linesOf(blocking, 'blocks') as unknown as [{ readonly pid: number }];
      expect(pid === blocking.pid).toBe(isolate === 'thread');
      // A thread reads how long its lease lasts; a process that is blocked hears of no extension.
      expect(linesOf(blocking, 'blocks still')).toMatchObject([{ isHeld: isolate === 'thread' }]);
      const [{ token }] = linesOf(blocking, 'run begins') as [Line];

      expect((await queue('sums').getCompleted()).map(({ returnvalue }) => returnvalue as number)).toEqual([3]);
      const failed = { failedReason: 'there is no b', attemptsMade: 1 };
      expect(await queue('sums').getFailed()).toMatchObject([failed]);

      other.send('go');
      await vi.waitFor(() => expect(linesOf(other, 'tick is skipped: held').length).toBeGreaterThan(0), 30_000);
      expect(linesOf(other, 'run begins')).toEqual([]);
      blocking.kill('SIGTERM');
      expect(await blocking.exit).toEqual({ code: 0, signal: null });
      expect(isLiving(pid)).toBe(false);
      expect(linesOf(blocking, `handler ignores its signal; its ${isolate} is terminated`)).toHaveLength(1);
      expect(linesOf(blocking, 'closed')).toMatchObject([{ unsettled: 0 }]);
      await vi.waitFor(() => expect(linesOf(other, 'run begins').length).toBeGreaterThan(0), 30_000);
      expect(linesOf(other, 'run begins')[0]?.['token']).toBeGreaterThan(token as number);
    }),
);

test('isolated in a process: one that ends by itself fails its run in plain words, and the next run has another', () =>
  withPlaces('process', async ({ start, queue }) => {
    await using child = start();
    for (const how of ['exit', 'memory', 'heap', 'thrown']) await queue('ends').add(how, { how });
    await vi.waitFor(async () => expect(await queue('ends').getFailedCount()).toBe(4), 30_000);
    const reasons = (await queue('ends').getFailed()).map(({ name, failedReason }) => [name, failedReason]);
    expect(Object.fromEntries(reasons)).toEqual({
      exit: 'the process of the handler has ended before the handler did, with code 3',
      memory:
        'the process of the handler was ended by SIGKILL, which the system sends when memory is short, and the process itself once its channel to this one was closed (process.disconnect)',
      heap: 'the process of the handler was ended by SIGABRT, as Node ends when its heap is full (--max-old-space-size)',
      thrown: 'thrown where nobody catches',
    });
    expect(child.output).toContain('exit was here');
    child.kill('SIGTERM');
    expect(await child.exit).toEqual({ code: 0, signal: null });
  }));

test('isolated in a process: a signal to all processes ends no run, nor does what the handler sends, and it ends, with all that it has started, when its parent is killed', () =>
  withPlaces('process', async ({ start, queue }) => {
    await using child = start();
    await queue('ends').add('waits', { how: 'waits' });
    await vi.waitFor(() => expect(linesOf(child, 'waits')).toHaveLength(1), 30_000);
    const [{ pids }] = linesOf(child, 'waits') as unknown as [{ readonly pids: readonly [number, number] }];
    process.kill(pids[0], 'SIGTERM');
    const told = linesOf(child, 'waits still').length;
    await vi.waitFor(() => expect(linesOf(child, 'waits still').length).toBeGreaterThan(told + 3), 10_000);
    expect(pids.map(isLiving)).toEqual([true, true]);
    await child.kill9();
    await vi.waitFor(() => expect(pids.map(isLiving)).toEqual([false, false]), 10_000);
  }));
