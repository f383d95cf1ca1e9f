import { DelayedError } from 'bullmq';
import { describe, expect, it, vi } from 'vitest';
import { busyDelayMs, delayMs, moveBack, putBack } from '../src/put-back.ts';
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

describe('busyDelayMs', () => {
  const started = (attemptsStarted: number) => ({ attemptsStarted, attemptsMade: 0 });

  it('doubles with each time, up to 30 s', () => {
    const delays = [1, 2, 3, 4, 6, 7].map((starts) => busyDelayMs(started(starts), Infinity, middle));
    expect(delays).toEqual([1000, 2000, 4000, 8000, 31_526, 31_526]);
  });

  it('ends just after the lease of the holder, and not for all at once', () => {
    const ends = [0, 0.25, 0.5, 0.75, 0.999].map((luck) => busyDelayMs(started(20), 10_000, () => luck));
    for (const end of ends) {
      expect(end).toBeGreaterThanOrEqual(10_000);
      expect(end).toBeLessThan(11_100);
    }
    expect(new Set(ends).size).toBe(ends.length);
    expect(busyDelayMs(started(1), 0, () => 0)).toBe(50);
  });
});

describe('putBack', () => {
  it('moves the job with its own lock and tells BullMQ so', async () => {
    const job = fakeJob();
    await expect(putBack(job, 'lock', 200, new Error('busy'))).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
    expect(job.delays[0]).toBeGreaterThan(150);
  });

  it.each([-1, -2, -3, -6])('has nothing recorded of a job that is not ours any more (%i)', async (code) => {
    const job = fakeJob();
    job.refusals.push(bullError(code));
    await expect(putBack(job, 'lock', 200, new Error('busy'))).rejects.toBeInstanceOf(DelayedError);
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

  describe('of a worker that closes', () => {
    it('brings the job back at once, for another worker', async () => {
      const job = fakeJob();
      await expect(putBack(job, 'lock', 200, new Error('busy'), AbortSignal.abort())).rejects.toBeInstanceOf(
        DelayedError,
      );
      expect(job.promoted).toBe(1);
      const other = fakeJob();
      await expect(putBack(other, 'lock', 200, new Error('busy'), new AbortController().signal)).rejects.toBeInstanceOf(
        DelayedError,
      );
      expect(other.promoted).toBe(0);
    });

    it('does not wait for ever for BullMQ, and says nothing of a job that may yet be moved', async () => {
      const closing = new AbortController();
      const job = fakeJob();
      job.moveToDelayed = () => new Promise(() => {});
      vi.useFakeTimers();
      try {
        const ended = moveBack(job, 'lock', 200, closing.signal);
        await vi.advanceTimersByTimeAsync(60_000);
        closing.abort();
        await vi.advanceTimersByTimeAsync(1900);
        expect(await Promise.race([ended, Promise.resolve('waits')])).toBe('waits');
        await vi.advanceTimersByTimeAsync(200);
        expect(await ended).toBe('unknown');
        expect(vi.getTimerCount()).toBe(0);
      } finally {
        vi.useRealTimers();
      }
    });
  });
});
