import { setTimeout as sleep } from 'node:timers/promises';
import { QueueEvents } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { Bench } from './fixtures/bullmq-setup.ts';
import { fencedEffects, idsOf } from './fixtures/bullmq-proof-ledger.ts';
import { randomOf } from './fixtures/random.ts';

const redisUrl = inject('redisUrl');
const TTL_MS = 1000;
const PROCESSES = 3;
const CONCURRENCY = 10;
// For every day, and for the patient, who get a report: LEASEHOLD_LONG=1.
const IS_LONG = process.env['LEASEHOLD_LONG'] === '1';
const JOBS = IS_LONG ? 1000 : 200;
/** After so many more jobs something happens to one of the processes. */
const STRIDE = 20;
const KEYS = Array.from({ length: 20 }, (_, n) => `key-${n}`);
const seed = Number(process.env['LEASEHOLD_SEED'] ?? Date.now() % 2 ** 31);

/** Processes with the same worker. */
class Crew implements AsyncDisposable {
  /** All that there ever were. */
  readonly members: Child[] = [];
  readonly #env: Readonly<Record<string, string>>;

  constructor(bench: Bench) {
    this.#env = {
      QUEUE_URL: redisUrl,
      LEASES_URL: redisUrl,
      LEDGER_URL: redisUrl,
      QUEUE: bench.name,
      PREFIX: bench.prefix,
      TTL_MS: `${TTL_MS}`,
      CONCURRENCY: `${CONCURRENCY}`,
    };
  }

  async start(): Promise<Child> {
    const member = startChild(new URL('fixtures/bullmq-proof-worker.ts', import.meta.url), { env: this.#env });
    this.members.push(member);
    await member.next('ready', { timeoutMs: 60_000 });
    return member;
  }

  said(type: string) {
    return this.members.flatMap(({ unread }) => unread.filter((message) => message.type === type));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.members.map((member) => member[Symbol.asyncDispose]()));
  }
}

/** Counts what the queue says. */
class Progress {
  readonly failures: unknown[] = [];
  #done = 0;
  #wake = (): void => {};

  constructor(events: QueueEvents) {
    events.on('failed', (failure) => this.failures.push(failure));
    events.on('completed', () => {
      this.#done++;
      this.#wake();
    });
  }

  async reaches(count: number): Promise<void> {
    while (this.#done < count) await new Promise<void>((resolve) => (this.#wake = resolve));
  }
}

describe(`three processes, of which now and then one is killed or stopped (LEASEHOLD_SEED=${seed})`, () => {
  test('lose no job, and of each key one at a time writes', { timeout: IS_LONG ? 900_000 : 120_000 }, async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const events = bench.closing(new QueueEvents(bench.name, { connection: bench.connection }));
    await events.waitUntilReady();
    const progress = new Progress(events);
    const random = randomOf(seed);
    await using crew = new Crew(bench);
    const jobs = Array.from({ length: JOBS }, (_, n) => ({
      name: 'job',
      data: { key: KEYS[n % KEYS.length], workMs: Math.round(50 + 200 * random()) },
      opts: { attempts: 1 },
    }));
    await bench.queue.addBulk(jobs);

    const atWork = new Set(await Promise.all(Array.from({ length: PROCESSES }, () => crew.start())));
    const deeds = { kill: 0, stop: 0 };
    const under = new Set<Promise<unknown>>();
    for (let next = STRIDE; next < JOBS; next += STRIDE) {
      await progress.reaches(next);
      while (atWork.size === 0) await Promise.race(under);
      const victim = [...atWork][Math.floor(random() * atWork.size)] as Child;
      const deed = random() < 0.5 ? 'kill' : 'stop';
      atWork.delete(victim);
      deeds[deed]++;
      const forMs = TTL_MS * (1.2 + 2 * random());
      const doing = (async () => {
        if (deed === 'kill') {
          await victim.kill9();
          atWork.add(await crew.start());
        } else {
          await victim.stop();
          await sleep(forMs);
          victim.cont();
          atWork.add(victim);
        }
      })();
      under.add(doing);
      void doing.then(
        () => under.delete(doing),
        () => {}, // is heard of in the end
      );
    }
    await Promise.all(under);
    await expect
      .poll(() => bench.queue.getJobCounts('wait', 'active', 'delayed', 'failed', 'completed'), {
        timeout: 60_000,
        interval: 50,
      })
      .toEqual({ wait: 0, active: 0, delayed: 0, failed: 0, completed: JOBS });
    for (const child of atWork) child.send('do', { op: 'close' });
    for (const child of atWork) {
      await child.next('closed');
      expect(await child.exit).toEqual({ code: 0, signal: null });
    }

    const { jobIds, writtenAgain, inversions } = await fencedEffects(raw, bench.prefix, KEYS);
    expect(jobIds).toEqual(idsOf(JOBS));
    expect(progress.failures).toEqual([]);
    expect(crew.said('unhandled')).toEqual([]);
    const perKey = JOBS / KEYS.length;
    const pairs = (KEYS.length * perKey * (perKey - 1)) / 2;
    const report = {
      seed,
      ...deeds,
      writtenAgain,
      refused: crew.said('refused').length,
      lost: crew.said('lost').length,
      inversions: `${inversions} of ${pairs} pairs`,
    };
    process.stdout.write(`${JSON.stringify(report)}\n`);
  });
});
