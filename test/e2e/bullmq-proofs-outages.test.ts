import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { Bench } from './fixtures/bullmq-setup.ts';
import { fencedEffects, idsOf } from './fixtures/bullmq-proof-ledger.ts';

const redisUrl = inject('redisUrl');
const TTL_MS = 1000;
const PROCESSES = 2;
const CONCURRENCY = 5;
const WORK_MS = 100;
const IS_LONG = process.env['LEASEHOLD_LONG'] === '1';
const JOBS = IS_LONG ? 300 : 40;
/** Of the jobs in the middle some are in hand for all the time that it lasts. */
const MIDST = JOBS / 4;
const WAITING = 4;
const KEYS = Array.from({ length: 8 }, (_, n) => `key-${n}`);

function isWaiting(n: number): boolean {
  return n >= MIDST && n < MIDST + WAITING;
}

/** Workers of one queue, and the ledger, which nothing happens to. */
class Crew implements AsyncDisposable {
  readonly bench: Bench;
  readonly ledger: Redis & AsyncDisposable;
  readonly #children: Child[] = [];
  readonly #env: Readonly<Record<string, string>>;

  private constructor(bench: Bench, ledger: Redis & AsyncDisposable, leasesUrl: string, queueUrl: string) {
    this.bench = bench;
    this.ledger = ledger;
    this.#env = {
      QUEUE_URL: queueUrl,
      LEASES_URL: leasesUrl,
      LEDGER_URL: redisUrl,
      QUEUE: bench.name,
      PREFIX: bench.prefix,
      TTL_MS: `${TTL_MS}`,
      CONCURRENCY: `${CONCURRENCY}`,
    };
  }

  static async start(queue: string, leases: string): Promise<Crew> {
    const crew = new Crew(new Bench(queue), await connectRedis(redisUrl), leases, queue);
    crew.bench.queue.on('error', () => {});
    for (let n = 0; n < PROCESSES; n++) {
      const file = new URL('fixtures/bullmq-proof-worker.ts', import.meta.url);
      crew.#children.push(startChild(file, { env: crew.#env }));
    }
    for (const child of crew.#children) await child.next('ready', { timeoutMs: 30_000 });
    return crew;
  }

  async add(count: number): Promise<void> {
    const jobs = Array.from({ length: count }, (_, n) => ({
      name: 'job',
      data: {
        key: KEYS[n % KEYS.length],
        workMs: WORK_MS,
        waits: isWaiting(n),
      },
      opts: { attempts: 1 },
    }));
    await this.bench.queue.addBulk(jobs);
  }

  /** Everything of this kind that was said so far. */
  said(type: string) {
    return this.#children.flatMap(({ unread }) => unread.filter((message) => message.type === type));
  }

  /** Resolves when the jobs are in hand that wait. */
  async inMidst(): Promise<void> {
    const begun = () => this.said('started').filter(({ jobId }) => isWaiting(Number(jobId) - 1)).length;
    await expect.poll(begun, { timeout: 60_000, interval: 10 }).toBe(WAITING);
  }

  /** Resolves when they have lost their leases; which they do not listen to. */
  async haveLost(): Promise<void> {
    const lost = () => this.said('lost').length;
    await expect.poll(lost, { timeout: 60_000, interval: 10 }).toBeGreaterThanOrEqual(WAITING);
  }

  /** And now they go on. */
  open(): void {
    for (const child of this.#children) child.send('do', { op: 'open' });
  }

  /** Each process is told to close, and ends. */
  async end(): Promise<void> {
    for (const child of this.#children) child.send('do', { op: 'close' });
    for (const child of this.#children) {
      await child.next('closed');
      expect(await child.exit).toEqual({ code: 0, signal: null });
    }
    expect(this.said('unhandled')).toEqual([]);
  }

  /** Each job is completed at the first attempt, and has one effect. */
  async expectAllDone(what: string): Promise<void> {
    const { queue, prefix } = this.bench;
    const counts = () => queue.getJobCounts('wait', 'active', 'delayed', 'failed', 'completed');
    await expect
      .poll(counts, { timeout: 60_000, interval: 50 })
      .toEqual({ wait: 0, active: 0, delayed: 0, failed: 0, completed: JOBS });
    await this.end();
    const found = await fencedEffects(this.ledger, prefix, KEYS);
    expect(found.jobIds).toEqual(idsOf(JOBS));
    this.report(what, found);
  }

  /** For the patient. */
  report(what: string, { jobIds: _, ...found }: Awaited<ReturnType<typeof fencedEffects>>): void {
    if (!IS_LONG) return;
    const errors: Record<string, number> = {};
    for (const { error } of this.said('error')) {
      const text = String(error).replace(/\d+/g, 'N').slice(0, 90);
      errors[text] = (errors[text] ?? 0) + 1;
    }
    const refused = this.said('refused').length;
    const line = { ...found, refused, lost: this.said('lost').length, failed: this.said('failed').length, errors };
    process.stdout.write(`${what}: ${JSON.stringify(line)}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child[Symbol.asyncDispose]()));
    await this.ledger[Symbol.asyncDispose]();
    await this.bench[Symbol.asyncDispose]();
  }
}

/** Full: nothing can be written until there is room again; what may be evicted is. */
async function fill(server: RedisServer, policy: string): Promise<void> {
  await using raw = await connectRedis(server.url);
  await raw.config('SET', 'maxmemory-policy', policy);
  await raw.config('SET', 'maxmemory', '1');
  await sleep(2 * TTL_MS);
  await raw.config('SET', 'maxmemory', '0');
}

describe('every job is completed, has one effect, and no process ends by itself', () => {
  test('when the Redis of queue and leases is silent for three ttls', { timeout: 120_000 }, async () => {
    await using server = await startRedis();
    await using crew = await Crew.start(server.url, server.url);
    await crew.add(JOBS);
    await crew.inMidst();
    await server.pause();
    await sleep(3 * TTL_MS);
    server.resume();
    await crew.haveLost();
    crew.open();
    await crew.expectAllDone('silent');
  });

  // For every day both in a row.
  test.each(IS_LONG ? ['noeviction', 'volatile-lru'] : ['noeviction, volatile-lru'])(
    'when it is full, with %s',
    { timeout: 120_000 },
    async (policies) => {
      await using server = await startRedis();
      await using crew = await Crew.start(server.url, server.url);
      await crew.add(JOBS);
      await crew.inMidst();
      for (const policy of policies.split(', ')) await fill(server, policy);
      crew.open();
      await crew.expectAllDone(policies);
      expect(crew.said('error').filter(({ error }) => String(error).startsWith('OOM'))).not.toEqual([]);
    },
  );

  test('when the Redis of the leases is killed, and comes back empty', { timeout: 120_000 }, async () => {
    await using leases = await startRedis();
    await using crew = await Crew.start(redisUrl, leases.url);
    await crew.add(JOBS);
    await crew.inMidst();
    await leases.kill();
    await leases.restart();
    await crew.haveLost();
    crew.open();
    await crew.expectAllDone('leases gone');
  });
});

describe('when the Redis of queue and leases is killed, and comes back empty', () => {
  test('no stale write gets through, and the workers go on with new jobs', { timeout: 120_000 }, async () => {
    await using server = await startRedis();
    await using crew = await Crew.start(server.url, server.url);
    await crew.add(JOBS);
    await crew.inMidst();
    await server.kill();
    await server.restart();
    const { queue, name, prefix } = crew.bench;
    // Not to be taken for those that are gone.
    await using raw = await connectRedis(server.url);
    await raw.set(`bull:${name}:id`, 1000);
    await crew.add(JOBS);
    await crew.haveLost();
    crew.open();
    // Of those that are gone some may be said to be done as well.
    await expect
      .poll(() => crew.said('completed').filter(({ jobId }) => Number(jobId) > 1000).length, { timeout: 60_000 })
      .toBe(JOBS);
    await crew.end();
    const found = await fencedEffects(crew.ledger, prefix, KEYS);
    expect(found.jobIds.filter((id) => id > 1000)).toEqual(idsOf(JOBS, 1001));
    expect(await queue.getFailedCount()).toBe(0);
    crew.report('all gone', found);
  });
});
