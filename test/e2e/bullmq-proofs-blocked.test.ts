import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { Bench } from './fixtures/bullmq-setup.ts';
import { fencedEffects, idsOf } from './fixtures/bullmq-proof-ledger.ts';

const redisUrl = inject('redisUrl');
const TTL_MS = 1000;
const KEYS = ['a', 'b', 'c', 'd'];

function start(bench: Bench, env: Readonly<Record<string, string>>): Child {
  return startChild(new URL('fixtures/bullmq-proof-worker.ts', import.meta.url), {
    env: {
      QUEUE_URL: redisUrl,
      LEASES_URL: redisUrl,
      LEDGER_URL: redisUrl,
      QUEUE: bench.name,
      PREFIX: bench.prefix,
      TTL_MS: `${TTL_MS}`,
      CONCURRENCY: `${KEYS.length}`,
      ...env,
    },
  });
}

/**
 * The event loop of a process is blocked with jobs in hand until another process has completed them, which is when their
 * locks and leases have run out. Then it goes on, and both close. What the two have said.
 */
async function blockWithJobsInHand(bench: Bench, env: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-blocked-'));
  try {
    const file = join(folder, 'go-on');
    await using loser = start(bench, env);
    await loser.next('ready');
    await bench.queue.addBulk(
      KEYS.map((key) => ({ name: 'job', data: { key, workMs: 0, waits: true }, opts: { attempts: 1 } })),
    );
    for (const _ of KEYS) await loser.next('started');
    loser.send('do', { op: 'block', file });
    await loser.next('blocked');

    await using winner = start(bench, env);
    for (const _ of KEYS) await winner.next('completed');
    writeFileSync(file, '');
    const refusals: { code?: string; jobId?: string }[] = [];
    for (const _ of KEYS) refusals.push(await loser.next(env['PLAIN'] === '1' ? 'wrote' : 'refused'));
    for (const child of [loser, winner]) {
      child.send('do', { op: 'close' });
      await child.next('closed');
      expect(await child.exit).toEqual({ code: 0, signal: null });
    }
    const of = (type: string) => loser.unread.filter((message) => message.type === type);
    return { of, refusals, failures: winner.unread.filter(({ type }) => type === 'failed' || type === 'error') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('a process whose event loop is blocked for longer than its locks and leases last', () => {
  test('with a plain worker: what its jobs do is done twice', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    await blockWithJobsInHand(bench, { PLAIN: '1' });
    const log = await raw.lrange(`{${bench.prefix}/plain}:log`, 0, -1);
    expect(log.toSorted()).toEqual(['1', '1', '2', '2', '3', '3', '4', '4']);
  });

  test('writes no more, completes nothing, and says at most once of each job that its lock is gone', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const { of, refusals, failures } = await blockWithJobsInHand(bench, {});
    expect(of('completed')).toEqual([]);
    expect(of('failed')).toEqual([]);
    expect(of('unhandled')).toEqual([]);
    expect(of('lost')).toHaveLength(KEYS.length);
    // By the bare grant it is the fence that refuses, by the lease its own clock.
    const codes = Object.fromEntries(refusals.map(({ jobId = '', code }) => [jobId, code]));
    expect(codes).toEqual({ 1: 'LEASE_LOST', 2: 'STALE_TOKEN', 3: 'LEASE_LOST', 4: 'STALE_TOKEN' });
    const errors = of('error').map(({ error }) => error as string);
    for (const error of errors) expect(error).toMatch(/^could not renew lock for job \d$/);
    expect(new Set(errors).size).toBe(errors.length);
    expect(failures).toEqual([]);
    expect(await bench.queue.getCompletedCount()).toBe(KEYS.length);
    const { jobIds, writtenAgain } = await fencedEffects(raw, bench.prefix, KEYS);
    expect(jobIds).toEqual(idsOf(KEYS.length));
    expect(writtenAgain).toBe(0);
  });
});
