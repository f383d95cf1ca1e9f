import { leasedCron } from '@leasehold/cron';
import type { TaskContext } from 'node-cron';
import { describe, expect, inject, test, vi } from 'vitest';

import { startChild, type Child, type Message } from '../support/child.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import type { CronProcessOptions, Order } from './fixtures/cron-process.ts';

interface Run extends Message {
  readonly tick: number | null;
  readonly fencingToken: number;
  readonly at: number;
}

interface Event extends Message {
  readonly event: string;
  readonly tick: number;
  readonly reason?: string;
  readonly code?: string;
}

vi.setConfig({ testTimeout: 60_000 });

const url = inject('redisUrl');
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

function startProcess(options: Partial<CronProcessOptions> & Pick<CronProcessOptions, 'prefix' | 'body'>): Child {
  const all: CronProcessOptions = { url, ttl: 2000, ...options };
  return startChild(new URL('./fixtures/cron-process.ts', import.meta.url), {
    env: { CRON_PROCESS: JSON.stringify(all) },
    // Tests run side by side, and each ends its own.
    scope: 'file',
  });
}

function order(child: Child, what: Order): void {
  child.send('order', { ...what });
}

async function eventOf(child: Child, event: string): Promise<Event> {
  for (;;) {
    const said = await child.next<Event>('event');
    if (said.event === event) return said;
  }
}

function saidBy<T extends Message>(children: readonly Child[], type: string): T[] {
  return children.flatMap(({ unread }) => unread.filter((message) => message.type === type) as T[]);
}

async function shutDown(children: readonly Child[]): Promise<void> {
  for (const child of children) order(child, { op: 'shutdown', timeout: 5000 });
  for (const child of children) expect(await child.exit).toEqual({ code: 0, signal: null });
}

describe.concurrent('three processes', () => {
  test('whose runs are longer than the period, and than the ttl, never overlap', async () => {
    const prefix = uniqueName('cron');
    const children = [0, 0, 0].map(() => startProcess({ prefix, body: { for: 1700 }, ttl: 1000 }));
    try {
      const [one] = children as [Child];
      for (const child of children) await child.next('ready');
      while (saidBy(children, 'run').length < 3) await one.next('event'); // it hears of each tick
      await shutDown(children);
      const runs = saidBy<Run>(children, 'run').toSorted((a, b) => a.fencingToken - b.fencingToken);
      const ends = new Map(saidBy<Run>(children, 'end').map(({ fencingToken, at }) => [fencingToken, at]));
      expect(saidBy(children, 'aborted')).toEqual([]);
      expect(runs.length).toBeGreaterThanOrEqual(3);
      for (const [index, run] of runs.entries()) {
        expect(run.at).toBeGreaterThan(index === 0 ? 0 : (ends.get(runs[index - 1]!.fencingToken) as number));
      }
    } finally {
      for (const child of children) await child.kill9();
    }
  });
});

test.concurrent('execute() is busy while another process runs, and then runs without a tick', async () => {
  const prefix = uniqueName('cron');
  await using first = startProcess({ prefix, body: 'until-told', scheduled: false });
  await using second = startProcess({ prefix, body: { for: 1 }, scheduled: false });
  await first.next('ready');
  await second.next('ready');
  order(first, { op: 'execute' });
  expect(await first.next('run')).toMatchObject({ tick: null, trigger: 'manual', isCurrent: true });
  order(second, { op: 'execute' });
  expect(await second.next('executed')).toMatchObject({
    code: 'RESOURCE_BUSY',
    message: expect.stringContaining(`pid ${first.pid}`) as string,
  });
  expect(await eventOf(second, 'failed')).toMatchObject({ code: 'RESOURCE_BUSY' });
  order(first, { op: 'go' });
  expect(await first.next('executed')).toMatchObject({ value: 'value' });
  order(second, { op: 'execute' });
  expect(await second.next('executed')).toMatchObject({ value: 'value' });
});

test('stop() during the random delay gives the tick back', async () => {
  const prefix = uniqueName('cron');
  await using cron = leasedCron({ connection: url, prefix });
  await using other = leasedCron({ connection: url, prefix });
  const random = vi.spyOn(Math, 'random').mockReturnValue(0.99);
  const options = { name: 'job', maxRandomDelay: 60_000 };
  const task = cron.schedule('* * * * * *', () => expect.unreachable(), options);
  const { date } = await new Promise<TaskContext>((resolve) => task.on('execution:started', resolve));
  random.mockRestore();
  expect(await cron.manager.inspect('job')).toMatchObject({ state: 'held' });
  const released = new Promise((resolve) => cron.manager.once('released', resolve));
  void task.stop();
  await released;
  await using again = await other.manager.tryAcquire('job', { tick: { job: 'job', at: date } });
  expect(again).toMatchObject({ acquired: true });
});

test.concurrent('Redis down at a tick is a coordinator-error, and once it is back ticks run again', async () => {
  await using redis = await startRedis({ scope: 'file' });
  await using cron = leasedCron({ connection: redis.url, ttl: 2000 });
  const task = cron.schedule('* * * * * *', () => {}, { name: 'job', logger: quiet, suppressMissedWarning: true });
  const next = (event: 'skipped' | 'finished'): Promise<TaskContext> =>
    new Promise((resolve) => {
      const listener = (context: TaskContext): void => {
        task.off(`execution:${event}`, listener);
        resolve(context);
      };
      task.on(`execution:${event}`, listener);
    });
  await next('finished');
  const skipped = next('skipped');
  await redis.kill();
  expect(await skipped).toMatchObject({ reason: 'coordinator-error' });
  await redis.restart();
  await next('finished');
});

// Timers keep the context in which they were set, unless they are those of a test.
test.concurrent('a job that is scheduled inside a run waits for what that run holds', async () => {
  await using cron = leasedCron({ connection: url, prefix: uniqueName('cron') });
  const events: string[] = [];
  const heard = (event: 'waiting' | 'started' | 'unavailable'): Promise<void> =>
    new Promise((resolve) => cron.on(event, () => (events.push(event), resolve())));
  const [waiting, started] = [heard('waiting'), heard('started'), heard('unavailable')];
  await cron.manager.run('ledger', async () => {
    cron.schedule('* * * * * *', () => {}, { name: 'job', lease: { resource: 'ledger' } });
    await waiting;
    expect(events).not.toContain('started');
  });
  await started;
  expect(events).not.toContain('unavailable');
});

describe.concurrent('shutdown', () => {
  test('lets a run end that ends in time', async () => {
    const prefix = uniqueName('cron');
    await using child = startProcess({ prefix, body: { for: 700 } });
    await child.next('run');
    order(child, { op: 'shutdown', timeout: 5000 });
    await child.next('end');
    expect(await eventOf(child, 'finished')).toBeDefined();
    await child.next('down');
    expect(await child.exit).toEqual({ code: 0, signal: null });
    expect(saidBy([child], 'aborted')).toEqual([]);
    await using redis = await connectRedis(url);
    expect(await redis.hget(`${prefix}:{job}`, 'owner')).toBe('');
  });

  test('cancels a run that does not, and releases when it has ended', async () => {
    const prefix = uniqueName('cron');
    await using child = startProcess({ prefix, body: 'until-aborted' });
    await child.next('run');
    order(child, { op: 'shutdown', timeout: 300 });
    expect(await child.next('aborted')).toMatchObject({ name: 'RunCancelledError', reason: 'shutdown' });
    // The run returned its value while it still held the lease.
    expect(await eventOf(child, 'finished')).toBeDefined();
    await child.next('down');
    expect(await child.exit).toEqual({ code: 0, signal: null });
    await using redis = await connectRedis(url);
    expect(await redis.hget(`${prefix}:{job}`, 'owner')).toBe('');
  });

  test('does not release beside a run that ignores its signal', async () => {
    const prefix = uniqueName('cron');
    await using child = startProcess({ prefix, body: 'until-told', ttl: 10_000 });
    await child.next('run');
    order(child, { op: 'shutdown', timeout: 300 });
    await child.next('aborted');
    await child.next('down');
    await using redis = await connectRedis(url);
    expect(await redis.hget(`${prefix}:{job}`, 'owner')).not.toBe('');
  });
});
