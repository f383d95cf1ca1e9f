import { LeasedWorker, withLease, type LeasedProcessor } from '@leasehold/bullmq';
import { Worker, type Job, type Processor } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { aborted, Bench, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

function raise(error: unknown): never {
  throw error;
}

async function* generate(): AsyncGenerator<number> {
  yield 1;
}

const circular: { self?: unknown } = {};
circular.self = circular;

/** What processors written for plain BullMQ look like, and what they are known to do. */
const SHAPES: Record<string, (...args: never[]) => unknown> = {
  'takes the job': (job: Job) => job.data.n,
  'takes the job and its token': (_job: Job, token: string) => typeof token,
  'takes whatever there is': (...args: unknown[]) => args.length,
  'takes the signal': async (_job: Job, _token: string, signal: AbortSignal) => signal.aborted,
  'is a method of the worker': function (this: unknown) {
    return this instanceof Worker;
  },
  'returns undefined': async () => {},
  'returns null': () => null,
  // oxlint-disable-next-line unicorn/no-thenable -- this is the point
  'returns a promise of its own kind': () => ({ then: (resolve: (value: string) => void) => resolve('later') }),
  'returns a function': () => () => 1,
  'returns an async iterator': () => generate(),
  'returns what has no JSON': () => circular,
  'throws at once': () => raise(new TypeError('mine')),
  rejects: async () => raise(new TypeError('mine')),
  'throws a frozen error': () => raise(Object.freeze(new Error('frozen'))),
  'throws what is only shaped like an error': () => raise({ name: 'Custom', message: 'shaped' }),
  'throws what names itself unrecoverable': () =>
    raise(Object.assign(new Error('never'), { name: 'UnrecoverableError' })),
};

/** What becomes of a job that is tried twice. */
async function outcome(leased: boolean, processor: unknown): Promise<unknown> {
  await using bench = new Bench(redisUrl);
  const { connection } = bench;
  const worker = bench.worker(
    leased
      ? new LeasedWorker(bench.name, processor as LeasedProcessor, {
          connection,
          lease: { resource: 'reports', manager: bench.manager() },
        })
      : new Worker(bench.name, processor as Processor, { connection }),
  );
  const ended = new Promise<void>((resolve) => {
    worker.on('completed', () => resolve());
    worker.on('failed', (its) => void (its?.isFailed().then((isFailed) => isFailed && resolve()) as Promise<void>));
  });
  const job = await bench.add({ n: 7 }, { attempts: 2 });
  await ended;
  const { returnvalue, failedReason, attemptsMade, attemptsStarted } = await bench.stored(job);
  const failures = bench.failures.map(({ name, message }) => ({ name, message }));
  return { state: await job.getState(), returnvalue, failedReason, attemptsMade, attemptsStarted, failures };
}

describe('a processor that', () => {
  test.each(Object.keys(SHAPES))('%s ends as it does with BullMQ', async (name) => {
    const [plain, ours] = await Promise.all([outcome(false, SHAPES[name]), outcome(true, SHAPES[name])]);
    expect(ours).toEqual(plain);
  });

  test.each([
    ['a text', 'boom', "no Error was thrown but 'boom'"],
    ['undefined', undefined, 'no Error was thrown but undefined'],
  ])('throws %s fails with an error that says so, where BullMQ has none', async (_, thrown, message) => {
    expect(await outcome(true, () => raise(thrown))).toMatchObject({
      state: 'failed',
      failedReason: message,
      attemptsMade: 2,
      failures: [{ message }, { message }],
    });
  });

  test('never settles keeps its job active and its lease held, and can be cancelled', async () => {
    await using bench = new Bench(redisUrl);
    const [started, end] = [new Gate(), new Gate()];
    const manager = bench.manager({ ttl: 500, callTimeout: 50 });
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async () => {
          started.open();
          await end.opened;
        },
        { connection: bench.connection, lease: { resource: 'reports', manager } },
      ),
    );
    const job = await bench.add({});
    await started.opened;
    await expect.poll(async () => (await manager.inspect('reports'))?.extensions).toBeGreaterThan(3);
    expect(await job.getState()).toBe('active');
    expect(worker.cancelJob(job.id as string)).toBe(true);
    end.open();
    await emitted(worker, 'completed');
  });

  test('can be cancelled as long as it runs and no longer, alone or with all others, and a class beneath hears of it', async () => {
    await using bench = new Bench(redisUrl);
    const heard: unknown[][] = [];
    class Listening<D, R> extends Worker<D, R> {
      override cancelJob(jobId: string, reason?: string): boolean {
        heard.push([jobId, reason]);
        return super.cancelJob(jobId, reason);
      }
    }
    const running = new Set<string>();
    const begun: Record<number, Gate> = { 1: new Gate(), 3: new Gate() };
    const worker = bench.worker(
      new (withLease(Listening))(
        bench.name,
        async (job, _, signal) => {
          running.add(job.id as string);
          begun[running.size]?.open();
          return (await aborted(signal)).cause;
        },
        {
          connection: bench.connection,
          concurrency: 3,
          lease: { resource: ({ id }) => `${id}`, manager: bench.manager() },
        },
      ),
    );
    const late: boolean[] = [];
    worker.on('completed', ({ id }) => late.push(worker.cancelJob(id as string)));
    const first = await bench.add({});
    await begun[1]?.opened;
    expect(worker.cancelJob('another', 'none')).toBe(false);
    const one = emitted(worker, 'completed');
    expect(worker.cancelJob(first.id as string, 'one')).toBe(true);
    await one;
    await Promise.all([bench.add({}), bench.add({})]);
    await begun[3]?.opened;
    const all = emitted(worker, 'completed', 2);
    worker.cancelAllJobs('all');
    await all;
    expect(late).toEqual([false, false, false]);
    expect(heard.slice(0, 2)).toEqual([
      ['another', 'none'],
      [first.id, 'one'],
    ]);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });
});
