import { DelayedError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { delayMs, putBack } from '../src/put-back.ts';
import { bullError, fakeJob } from './fake-job.ts';

const middle = (): number => 0.5;

describe('delayMs', () => {
  const started = (attemptsStarted: number, attemptsMade = 0) => ({ attemptsStarted, attemptsMade });

  it('grows with each start that used no attempt', () => {
    const delays = [1, 2, 3, 4, 5].map((starts) => delayMs(started(starts), 60_000, middle));
    expect(delays).toEqual([100, 150, 225, 338, 506]);
  });

  it('begins anew after a start that did use one', () => {
    expect(delayMs(started(6, 5), 60_000, middle)).toBe(100);
  });

  it('is not much longer than the holder may have it, and never more than about 30 s', () => {
    expect(delayMs(started(20), 4000, middle)).toBe(4025);
    expect(delayMs(started(20), 3_600_000, middle)).toBe(30_025);
    expect(delayMs(started(10_000), Infinity, middle)).toBe(30_025);
  });

  it('is never so short that the queue spins', () => {
    for (const remainingMs of [0, 1, 49]) {
      for (const random of [0, 0.999]) {
        expect(delayMs(started(1), remainingMs, () => random)).toBeGreaterThanOrEqual(50);
      }
    }
  });

  it('differs from job to job', () => {
    expect(delayMs(started(1), 60_000, () => 0)).toBe(75);
    expect(delayMs(started(1), 60_000, () => 0.999)).toBe(125);
  });

  it('bears counters that make no sense', () => {
    expect(delayMs(started(0, 3), 60_000, middle)).toBe(100);
  });
});

describe('putBack', () => {
  it('moves the job with its own lock and tells BullMQ so', async () => {
    const job = fakeJob();
    await expect(putBack(job, 'lock', 200, new Error('busy'))).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
    expect(job.delays[0]).toBeGreaterThan(150);
  });

  it.each([-1, -2, -3, -6])('gives the reason, not the code, when the job is not ours any more (%i)', async (code) => {
    const job = fakeJob();
    job.refusals.push(bullError(code));
    const busy = new Error('busy');
    await expect(putBack(job, 'lock', 200, busy)).rejects.toBe(busy);
    expect(job.delays).toHaveLength(0);
  });

  it('tries again when BullMQ could not be asked', async () => {
    const job = fakeJob();
    job.refusals.push(new Error('OOM'), new Error('READONLY'));
    await expect(putBack(job, 'lock', 200, new Error('busy'))).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
  });

  it('gives up with the reason', async () => {
    const job = fakeJob();
    job.refusals.push(...Array.from({ length: 5 }, () => new Error('OOM')));
    const busy = new Error('busy');
    await expect(putBack(job, 'lock', 200, busy)).rejects.toBe(busy);
  });
});
