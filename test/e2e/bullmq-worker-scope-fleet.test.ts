import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Job } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { connectRedis } from '../support/redis-client.ts';
import type { Child } from '../support/child.ts';
import { Bench } from './fixtures/bullmq-setup.ts';
import { Fleet } from './fixtures/bullmq-scope-fleet.ts';

const redisUrl = inject('redisUrl');
const TTL_MS = 1000;
const SHORT = 9;
// For every day, and for the patient, who get a report: LEASEHOLD_LONG=1.
const ROUNDS = process.env['LEASEHOLD_LONG'] === '1' ? 100 : SHORT;
const WAITING = 60;
const DEEDS = ['revoke', 'kill', 'close', 'stop'] as const;

type Deed = (typeof DEEDS)[number];

/** How long until the next one was at work, and how long the lease still had to run. */
interface Takeover {
  readonly deed: Deed;
  readonly tookMs: number;
  readonly leftMs: number;
}

/** What happens to the one in office; `after` when another one is at work. */
interface Doing {
  readonly at: number;
  readonly leftMs: number;
  after(): Promise<unknown>;
}

async function doTo(member: Child, deed: Deed, fleet: Fleet, manager: LeaseManager): Promise<Doing> {
  const left = async (): Promise<number> => (await manager.inspect('payments'))?.remainingMs ?? 0;
  switch (deed) {
    case 'kill': {
      const leftMs = await left();
      const at = Date.now();
      await fleet.kill(member);
      // Meanwhile the two others go on.
      return { at, leftMs, after: async () => void fleet.start() };
    }
    case 'stop': {
      const leftMs = await left();
      const at = Date.now();
      await member.stop();
      const from = fleet.events.length;
      return {
        at,
        leftMs,
        after: () => {
          member.cont();
          return fleet.next(from, (event) => event.member === member && event.kind === 'steppedDown');
        },
      };
    }
    case 'revoke': {
      const at = Date.now();
      await manager.revoke('payments');
      return { at, leftMs: 0, after: async () => {} };
    }
    case 'close': {
      const at = Date.now();
      const from = fleet.events.length;
      member.send('do', { op: 'close' });
      return {
        at,
        leftMs: 0,
        after: async () => {
          await fleet.next(from, (event) => event.member === member && event.kind === 'closed');
          member.send('do', { op: 'again' });
        },
      };
    }
  }
}

function tally(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

function quantiles(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number): number => Math.round(sorted[Math.floor(part * (sorted.length - 1))] as number);
  return `p50 ${at(0.5)} p90 ${at(0.9)} max ${at(1)} ms (n ${sorted.length})`;
}

describe('three processes with one worker', () => {
  test(
    'whatever happens to the one in office: one at a time writes, no job begins after a loss, no job is lost',
    { timeout: ROUNDS * 15_000 },
    async () => {
      await using bench = new Bench(redisUrl);
      await using raw = await connectRedis(redisUrl);
      const manager = bench.closing(
        new LeaseManager({ store: redisStore(redisUrl, { prefix: bench.prefix }), ttl: TTL_MS }),
      );
      await using fleet = new Fleet({
        REDIS_URL: redisUrl,
        QUEUE: bench.name,
        PREFIX: bench.prefix,
        TTL_MS: `${TTL_MS}`,
      });
      let added = 0;
      const over = new AbortController();
      const produced = (async () => {
        while (!over.signal.aborted) {
          const missing = Math.max(0, WAITING - (await bench.queue.getWaitingCount()));
          const workMs = (n: number): number => 20 + ((added + n) % 5) * 10;
          await bench.queue.addBulk(
            Array.from({ length: missing }, (_, n) => ({ name: 'job', data: { workMs: workMs(n) } })),
          );
          added += missing;
          await sleep(200);
        }
      })();

      await Promise.all([fleet.start(), fleet.start(), fleet.start()]);
      const takeovers: Takeover[] = [];
      let from = 0;
      for (let round = 0; round < ROUNDS;) {
        const deed = DEEDS[round % DEEDS.length] as Deed;
        if (deed === 'kill') await fleet.whole();
        // In the middle of its jobs.
        const { member, fencingToken: token = 0 } = await fleet.next(from, ({ kind }) => kind === 'midst');
        from = fleet.events.length;
        // On a busy machine one in office may lose its lease without our doing.
        if (fleet.inOffice?.fencingToken !== token) continue;
        round++;
        const { at, leftMs, after } = await doTo(member, deed, fleet, manager);
        const first = await fleet.next(from, (event) => event.kind === 'first' && (event.fencingToken ?? 0) > token);
        takeovers.push({ deed, tookMs: first.at - at, leftMs });
        from = fleet.events.indexOf(first);
        await after();
      }

      over.abort();
      await produced;
      await expect
        .poll(() => bench.queue.getJobCountByTypes('waiting', 'active', 'delayed'), { timeout: 60_000, interval: 100 })
        .toBe(0);
      await fleet.whole();
      await Promise.all(fleet.members.map((member) => fleet.end(member)));

      expect(fleet.of('late')).toEqual([]);
      expect(fleet.of('unhandled')).toEqual([]);
      expect(fleet.of('failed')).toEqual([]);
      expect(await bench.queue.getCompletedCount()).toBe(added);

      const key = `{${bench.prefix}/payments}`;
      expect(await raw.scard(`${key}:done`)).toBe(added);
      const writes = (await raw.lrange(`${key}:log`, 0, -1)).map((line) => line.split(' ') as [string, string, string]);
      const tokens = writes.map(([token]) => Number(token));
      // Those of each term without one of another in between, in the order of the terms.
      expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
      const owners = new Set(writes.map(([token, leaseId]) => `${token} ${leaseId}`));
      expect(owners.size).toBe(new Set(tokens).size);
      // What was written twice was delivered twice.
      const writtenBy = new Map<string, number>();
      for (const [, , jobId] of writes) writtenBy.set(jobId, (writtenBy.get(jobId) ?? 0) + 1);
      for (const [jobId, times] of writtenBy) {
        if (times === 1) continue;
        expect((await Job.fromId(bench.queue, jobId))?.attemptsStarted).toBeGreaterThanOrEqual(times);
      }

      if (ROUNDS === SHORT) return;
      const counted = (field: 'active' | 'started' | 'refused'): number => {
        // Each process counts on.
        const last = new Map(fleet.of('closed').map((event) => [event.member.pid, event[field] ?? 0]));
        return [...last.values()].reduce((sum, count) => sum + count, 0);
      };
      const lines = [
        `${ROUNDS} rounds: ${owners.size} terms that wrote, ${added} jobs, ${writes.length - writtenBy.size} written again`,
        `in processes that lived: ${counted('active') - counted('started')} jobs turned away, ${counted('refused')} writes refused`,
        ...DEEDS.map((deed) => {
          const its = takeovers.filter((takeover) => takeover.deed === deed);
          const beyond = quantiles(its.map(({ tookMs, leftMs }) => tookMs - leftMs));
          return `${deed}: ${quantiles(its.map(({ tookMs }) => tookMs))}; beyond the lease ${beyond}`;
        }),
        `errors of workers: ${JSON.stringify(tally(fleet.of('error').map(({ code, error = '' }) => code ?? error.replace(/\d+/g, 'N'))))}`,
        `ends of terms: ${JSON.stringify(tally(fleet.of('steppedDown').map(({ code, reason }) => `${code} ${reason}`)))}`,
      ];
      process.stdout.write(`${lines.join('\n')}\n`);
    },
  );
});
