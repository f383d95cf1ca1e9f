import { DelayedError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { fakeJob } from './fake-job.ts';
import { aborted, setUp } from './set-up.ts';

/** Resolves when what has begun can go no further by itself. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function raise(thrown: unknown): never {
  throw thrown;
}

describe('a second copy of a job', () => {
  it('never runs: it ends the first, puts itself back, and the first says nothing of the job', async () => {
    const { run, heard, runs } = setUp();
    const [first, second] = [fakeJob(), fakeJob({ attemptsStarted: 2 })];
    let reason: Error | undefined;
    const ended = run(first, async (signal) => {
      reason = await aborted(signal);
      return 'late';
    });
    await settle();
    first.isTaken = true;
    await expect(run(second, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect(second.delays).toHaveLength(1);
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(first.delays).toHaveLength(0);
    expect(reason).toMatchObject({ code: 'RUN_CANCELLED', reason: 'caller' });
    expect(reason?.cause).toMatchObject({ message: expect.stringMatching(/^BullMQ started job 1 again/) });
    expect(heard).toEqual(['acquired true']);
    expect(runs.live).toBe(0);
    await expect(run(fakeJob(), () => 'third')).resolves.toBe('third');
  });

  it('is all that is told to BullMQ, also when the first fails because it was ended', async () => {
    const { run } = setUp();
    const first = fakeJob();
    const ended = run(first, async (signal) => raise(await aborted(signal)));
    await settle();
    first.isTaken = true;
    await expect(run(fakeJob(), () => 1)).rejects.toBeInstanceOf(DelayedError);
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
  });

  it('rests longer each time, while the first goes on', async () => {
    const { run } = setUp();
    run(fakeJob(), never).catch(() => {});
    await settle();
    const delays: number[] = [];
    for (const attemptsStarted of [2, 6, 10, 14]) {
      const copy = fakeJob({ attemptsStarted });
      await expect(run(copy, () => 1)).rejects.toBeInstanceOf(DelayedError);
      delays.push(...copy.delays);
    }
    expect(delays).toEqual(delays.toSorted((a, b) => a - b));
    expect(delays.at(-1)).toBeGreaterThan(5000);
  });

  it('waits for BullMQ to be done with the first, which ends the renewal of the lock by the job alone', async () => {
    const { run, runs } = setUp();
    const first = fakeJob();
    const done = runs.processing(first);
    await expect(runs.run(first, 'lock', undefined, () => 'first')).resolves.toBe('first');
    expect(runs.live).toBe(0);
    await expect(run(fakeJob(), () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    done();
    await expect(run(fakeJob(), () => 'second')).resolves.toBe('second');
  });

  it('waits a moment where nobody says when BullMQ is done, and only for one in doubt', async () => {
    const { runs } = setUp();
    const run = (body: () => unknown): Promise<unknown> => runs.run(fakeJob(), 'lock', undefined, body);
    await run(() => 'first');
    await expect(run(() => 'second')).resolves.toBe('second');
    const third = run(() => {
      runs.lockRenewalFailed(['1']);
      return 'third';
    });
    await expect(third).resolves.toBe('third');
    await expect(run(() => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
  });

  it('never runs in another worker of the process either', async () => {
    const [one, two] = [setUp({ resource: () => null }), setUp({ resource: () => null })];
    const [first, second] = [fakeJob({ id: 'twice' }), fakeJob({ id: 'twice', attemptsStarted: 2 })];
    const ended = one.run(first, aborted);
    await settle();
    first.isTaken = true;
    first.others = { attemptsStarted: 2 };
    await expect(two.run(second, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect(second.delays).toHaveLength(1);
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    await expect(two.run(fakeJob({ id: 'twice', attemptsStarted: 3 }), () => 'third')).resolves.toBe('third');
  });

  it('is not what a queue of the same name on another server has under the same id', async () => {
    const [one, two] = [setUp(), setUp()];
    const [first, second] = [fakeJob({ id: 'alike' }), fakeJob({ id: 'alike', attemptsStarted: 2 })];
    let finish = (): void => {};
    const ended = one.run(first, async (signal) => {
      await new Promise<void>((resolve) => (finish = resolve));
      return signal.aborted;
    });
    await settle();
    await expect(two.run(second, () => 'second')).resolves.toBe('second');
    finish();
    expect(await ended).toBe(false);
  });

  it('is none of a job without a lease either', async () => {
    const { run } = setUp({ resource: () => null });
    const first = fakeJob();
    const reason = run(first, aborted);
    await settle();
    await expect(run(fakeJob(), () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect((await reason).message).toMatch(/^BullMQ started job 1 again/);
  });
});
