import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { leaseCoordinator, leasedTask } from '@leasehold/cron';
import nodeCron from 'node-cron';
import { describe, expect, inject, test, vi } from 'vitest';

import { startChild, type Child, type Message } from '../support/child.ts';
import { uniqueName } from '../support/redis-client.ts';
import type { BackgroundOptions } from './fixtures/cron-recipe-body.ts';
import type { Member, RecipeProcessOptions } from './fixtures/cron-recipe-process.ts';

const url = inject('redisUrl');

interface Asked extends Message {
  readonly job: string;
  readonly member: Member;
  readonly tick: number | null;
  readonly ran: boolean;
  readonly reason?: string;
}

interface Told extends Message {
  readonly tick: number;
  readonly pid?: number;
  readonly code?: string;
  readonly message?: string;
}

function startMember(options: Omit<RecipeProcessOptions, 'url'>): Child {
  return startChild(new URL('./fixtures/cron-recipe-process.ts', import.meta.url), {
    env: { CRON_RECIPE: JSON.stringify({ url, ...options }), NODE_NO_WARNINGS: '1' },
  });
}

function startParent(options: Pick<BackgroundOptions, 'file' | 'distributed'> & Partial<BackgroundOptions>): Child {
  const all: BackgroundOptions = { url, prefix: uniqueName('cron'), ttl: 1500, ...options };
  return startChild(new URL('./fixtures/cron-recipe-parent.ts', import.meta.url), {
    env: { CRON_RECIPE: JSON.stringify(all), NODE_NO_WARNINGS: '1' },
  });
}

async function stopAll(children: readonly Child[]): Promise<void> {
  for (const child of children) child.send('stop');
  for (const child of children) expect(await child.exit, child.output).toEqual({ code: 0, signal: null });
}

function ticksOf(children: readonly Child[], type: string): number[] {
  const messages = children.flatMap(({ unread }) => unread.filter((message) => message.type === type));
  return messages.map(({ tick }) => tick as number).toSorted((a, b) => a - b);
}

/** What was called for ran, and once. A busy machine's schedulers may have called for no run at some second. */
function expectEachOnce(ran: readonly number[], called: readonly number[]): void {
  expect(ran).toEqual([...new Set(ran)]);
  expect(called.filter((tick) => !ran.includes(tick))).toEqual([]);
  expect(ran.every((tick) => tick % 1000 === 0)).toBe(true);
}

test('two processes run each tick of a job once, whoever of its members is called', { timeout: 30_000 }, async () => {
  const prefix = uniqueName('cron');
  const members: readonly Member[] = ['cron', 'croner', 'leasedCron', 'coordinator'];
  await using one = startMember({ prefix, jobs: { all: members, two: ['cron', 'croner'] } });
  await using two = startMember({ prefix, jobs: { all: members.toReversed(), two: ['croner', 'cron'] } });
  const fleet = [one, two];
  for (const child of fleet) await child.next('ready');
  const asked: Asked[] = [];
  // Each tick is asked for by each member.
  while (asked.length < 3 * 6) asked.push(await one.next<Asked>('asked'));
  await stopAll(fleet);
  asked.push(...fleet.flatMap(({ unread }) => unread.filter(({ type }) => type === 'asked') as Asked[]));
  for (const job of ['all', 'two']) {
    const ofJob = asked.filter((each) => each.job === job);
    const runs = ofJob.filter(({ ran }) => ran).map(({ tick }) => tick as number);
    expect(runs.length).toBeGreaterThanOrEqual(3);
    const called = ofJob.filter(({ tick, reason }) => tick !== null && reason !== 'stopped');
    expectEachOnce(
      runs.toSorted((a, b) => a - b),
      called.map(({ tick }) => tick as number),
    );
    expect(new Set(ofJob.map(({ member }) => member))).toEqual(new Set(job === 'all' ? members : members.slice(0, 2)));
  }
  const reasons = asked.filter(({ ran }) => !ran).map(({ reason }) => reason);
  const harmless = new Set(['already-ran', 'held', 'superseded', 'running-here', 'not-elected', 'stopped']);
  expect(reasons.filter((reason) => !harmless.has(reason ?? ''))).toEqual([]);
});

describe('a file that node-cron runs in a process of its own', () => {
  test('and that is a leased task runs each tick in one of two such processes', { timeout: 30_000 }, async () => {
    const prefix = uniqueName('cron');
    await using one = startParent({ prefix, file: 'cron-recipe-file', distributed: false });
    await using two = startParent({ prefix, file: 'cron-recipe-file', distributed: false });
    for (const child of [one, two]) await child.next('ready');
    // An execution is finished in each of them for each tick, whether its body began or not.
    const finished: number[] = [];
    while (finished.length < 3) finished.push((await one.next<Told>('finished')).tick);
    await stopAll([one, two]);
    finished.push(...ticksOf([one, two], 'finished'));
    const bodies = ticksOf([one, two], 'body');
    expectEachOnce(bodies, finished);
    expect(bodies.length).toBeGreaterThanOrEqual(3);
    const faults = [one, two].flatMap(({ unread }) => unread.filter(({ type }) => /failed|uncaught/.test(type)));
    expect(faults).toEqual([]);
  });

  test(
    'and that is elected by leaseCoordinator runs each tick in one of two, though a listener throws',
    {
      timeout: 30_000,
    },
    async () => {
      const prefix = uniqueName('cron');
      const options = { prefix, file: 'cron-recipe-plain', distributed: true, badListener: true } as const;
      await using one = startParent(options);
      await using two = startParent(options);
      for (const child of [one, two]) await child.next('ready');
      // Each tick is one of these in each of them.
      for (let seen = 0; seen < 4; seen++) await Promise.race([one.next('body'), one.next('skipped')]);
      await stopAll([one, two]);
      const uncaught = [one, two].flatMap(({ unread }) => unread.filter(({ type }) => type === 'uncaught'));
      expect(new Set(uncaught.map(({ message }) => message))).toEqual(new Set(['a listener']));
    },
  );

  test('and that is both at once fails, and says what to do', { timeout: 30_000 }, async () => {
    await using parent = startParent({ file: 'cron-recipe-file', distributed: true });
    const { code, message } = await parent.next<Told>('failed');
    expect(code).toBe('CONFIG');
    expect(message).toContain(`process ${parent.pid}, which started this one`);
    expect(message).toContain('without distributed: true');
    await stopAll([parent]);
    expect(ticksOf([parent], 'body')).toEqual([]);
  });

  test(
    'and that was killed in a run runs again once its lease has run out, elected or leased',
    {
      timeout: 30_000,
    },
    async () => {
      await using leased = startParent({ file: 'cron-recipe-file', distributed: false, hangsFirst: true });
      await using elected = startParent({ file: 'cron-recipe-plain', distributed: true, hangsFirst: true });
      const parents = [leased, elected];
      const runsAgain = async (parent: Child): Promise<void> => {
        const before = await parent.next<Told>('body');
        process.kill(before.pid as number, 'SIGKILL');
        await parent.next('died');
        const after = await parent.next<Told>('body');
        expect(after.pid).not.toBe(before.pid);
        expect(after.tick).toBeGreaterThan(before.tick);
        await parent.next('finished');
      };
      await Promise.all(parents.map(runsAgain));
      await stopAll(parents);
      for (const parent of parents) {
        const bodies = ticksOf([parent], 'body');
        expect(new Set(bodies).size).toBe(bodies.length);
      }
    },
  );
});

test('a task that is stopped in its random delay leaves a lease that ends by itself', { timeout: 20_000 }, async () => {
  const prefix = uniqueName('cron');
  await using manager = new LeaseManager({ store: redisStore(url, { prefix }) });
  await using other = new LeaseManager({ store: redisStore(url, { prefix }) });
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const random = vi.spyOn(Math, 'random').mockReturnValue(0.9);
  try {
    const runCoordinator = leaseCoordinator(manager, { maxHold: '1s' });
    let elected = (): void => {};
    const election = new Promise<void>((resolve) => (elected = resolve));
    let runs = 0;
    const task = nodeCron.schedule('* * * * * *', () => void runs++, {
      name: 'job',
      distributed: true,
      distributedLease: 500,
      maxRandomDelay: 60_000,
      runCoordinator: {
        async shouldRun(key, ttlMs) {
          const allowed = await runCoordinator.shouldRun(key, ttlMs);
          if (allowed) elected();
          return allowed;
        },
        onComplete: (key) => runCoordinator.onComplete(key),
      },
    });
    await election;
    const began = performance.now();
    void task.destroy();
    expect(await other.inspect('job')).toMatchObject({ state: 'held' });
    await other.run('job', { wait: '10s' }, () => {});
    const tookMs = performance.now() - began;
    expect(tookMs).toBeGreaterThan(900);
    // maxHold, a ttl, and half a second for a busy machine.
    expect(tookMs).toBeLessThan(2000);
    expect(runs).toBe(0);
  } finally {
    warned.mockRestore();
    random.mockRestore();
  }
});

test('a task with a connection of its own opens it at the first call, and closes it', async () => {
  const prefix = uniqueName('cron');
  const skipped: string[] = [];
  const task = leasedTask((run) => run.fencingToken, {
    name: 'job',
    connection: url,
    prefix,
    ttl: '2s',
    minHold: '1ms',
    onSkipped: ({ reason }) => void skipped.push(reason),
  });
  expect(await task()).toBeGreaterThan(0);
  expect(await task.manager.inspect('job')).toMatchObject({ state: 'free', ttlMs: 2000 });
  await task.close();
  await expect(task.manager.inspect('job')).rejects.toMatchObject({ code: 'MANAGER_CLOSED' });
  expect(await task()).toBeUndefined();
  expect(skipped).toEqual(['stopped']);
});
