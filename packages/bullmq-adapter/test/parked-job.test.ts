import { describe, expect, it } from 'vitest';
import { ParkedJob } from '../src/parked-job.ts';
import { fakeJob, type FakeJob } from './fake-job.ts';

async function parked(): Promise<{ job: FakeJob; its: ParkedJob }> {
  const job = fakeJob({ timestamp: 1000, attemptsStarted: 2 });
  await job.moveToDelayed(Date.now() + 500, 'lock');
  const its = new ParkedJob(job);
  its.moved();
  return { job, its };
}

describe('a job that was put back', () => {
  it('is brought back as long as nobody has touched it', async () => {
    const { job, its } = await parked();
    await its.promote();
    expect(job.promoted).toBe(1);
  });

  it.each([
    ['added again under its id', { timestamp: 1001, attemptsStarted: 0, delay: 60_000 }],
    ['added again in the same millisecond', { attemptsStarted: 0 }],
    ['given another delay', { delay: 60_000 }],
    ['run elsewhere, and put back or retried there', { attemptsStarted: 3 }],
  ])('is left alone when it was %s', async (_, others) => {
    const { job, its } = await parked();
    job.others = others;
    await expect(its.promote()).rejects.toMatchObject({ code: -3 });
    expect(job.promoted).toBe(0);
  });

  it('is left alone when it was given another delay through the very object that we have', async () => {
    const { job, its } = await parked();
    job.delay = 60_000;
    await expect(its.promote()).rejects.toMatchObject({ code: -3 });
    expect(job.promoted).toBe(0);
  });

  it('is known to be gone', async () => {
    const { job, its } = await parked();
    job.others = null;
    await expect(its.promote()).rejects.toMatchObject({ code: -1 });
  });
});
