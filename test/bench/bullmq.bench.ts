// Jobs under a lease against a plain worker; how long a key stands idle between two of its jobs; how often a busy job is
// started for nothing.
import { LeasedWorker } from '@leasehold/bullmq';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue, Worker, type Job } from 'bullmq';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectionOf } from '../e2e/fixtures/bullmq-setup.ts';
import { startChild } from '../support/child.ts';
import { startRedis } from '../support/redis-server.ts';
import { interleave, percentile, show, type Variant } from './interleave.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? '15');
const COUNT = Number(process.env['COUNT'] ?? '1000');
const HAND_OFFS = Number(process.env['HAND_OFFS'] ?? '300');
const HOT_JOBS = Number(process.env['HOT_JOBS'] ?? '500');

interface Data {
  readonly key: string;
}

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const admin = new Redis(server.url);
const COMPARE_AND_DELETE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
admin.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: COMPARE_AND_DELETE });
const compareAndDelete = (
  admin as unknown as { compareAndDelete(key: string, value: string): Promise<unknown> }
).compareAndDelete.bind(admin);
const connection = connectionOf(server.url);
const manager = new LeaseManager({ store: redisStore(server.url) });
const resource = (job: Job<Data>): string => job.data.key;
let queues = 0;

const kinds = ['plain', 'a lock by hand', 'leased'] as const;
type Kind = (typeof kinds)[number];

/** What people write instead: it is neither renewed nor fenced, and here it is never busy. */
async function lockByHand(job: Job<Data>): Promise<void> {
  const value = randomBytes(16).toString('hex');
  if ((await admin.set(`lock:${job.data.key}`, value, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  await compareAndDelete(`lock:${job.data.key}`, value);
}

function workerOf(kind: Kind, name: string, concurrency: number): Worker {
  const options = { connection, concurrency, autorun: false };
  if (kind === 'plain') return new Worker(name, () => Promise.resolve(), options);
  if (kind === 'a lock by hand') return new Worker(name, lockByHand, options);
  return new LeasedWorker<Data>(name, () => {}, { ...options, lease: { resource, manager } });
}

/** Not to be in the way of the next round. */
let clearLast = (): Promise<void> => Promise.resolve();

/** What a job costs: calls of EVALSHA, µs of CPU in this process and in Redis. */
type Cost = readonly [calls: number, ownUs: number, redisUs: number];

/** Jobs that do nothing, all in the queue before the worker begins. */
class Jobs implements Variant {
  readonly name: string;
  /** Of each round. */
  readonly costs: Cost[] = [];
  readonly #kind: Kind;
  readonly #concurrency: number;
  readonly #keyOf: (n: number) => string;
  #worker: Worker | undefined;
  #queue: Queue | undefined;

  constructor(kind: Kind, concurrency: number, keyOf: (n: number) => string) {
    this.name = kind;
    this.#kind = kind;
    this.#concurrency = concurrency;
    this.#keyOf = keyOf;
  }

  async prepare(count: number): Promise<void> {
    await clearLast();
    clearLast = () => this.#clear();
    const name = `jobs-${queues++}`;
    this.#queue = new Queue(name, { connection });
    this.#worker = workerOf(this.#kind, name, this.#concurrency);
    await this.#worker.waitUntilReady();
    const jobs = Array.from({ length: count }, (_, n) => ({ name: 'job', data: { key: this.#keyOf(n) } }));
    await this.#queue.addBulk(jobs);
  }

  async round(count: number): Promise<void> {
    const worker = this.#worker as Worker;
    let done = 0;
    const ended = new Promise<void>((resolve) => worker.on('completed', () => void (++done === count && resolve())));
    worker.on('failed', (_, error) => console.error(error));
    const [calls, redisUs, before] = [await scriptCalls(), await redisCpuUs(), process.cpuUsage()];
    void worker.run();
    await ended;
    const { user, system } = process.cpuUsage(before);
    const spent = [(await scriptCalls()) - calls, user + system, (await redisCpuUs()) - redisUs] as const;
    this.costs.push(spent.map((total) => total / count) as unknown as Cost);
  }

  async #clear(): Promise<void> {
    await this.#worker?.close();
    await this.#queue?.obliterate({ force: true });
    await this.#queue?.close();
    this.#worker = this.#queue = undefined;
  }
}

/** Calls of EVALSHA, which is nearly all that BullMQ and leases send. */
async function scriptCalls(): Promise<number> {
  const stats = await admin.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? '0');
}

async function redisCpuUs(): Promise<number> {
  const info = await admin.info('cpu');
  const of = (name: string): number => Number(new RegExp(`used_cpu_${name}:([\\d.]+)`).exec(info)?.[1] ?? '0') * 1e6;
  return of('user') + of('sys');
}

/** Of the rounds: CPU time says more than speed where others are at work. */
function medians(costs: readonly Cost[]): Cost {
  const at = (part: 0 | 1 | 2): number =>
    percentile(
      costs.map((cost) => cost[part]).toSorted((x, y) => x - y),
      0.5,
    );
  return [at(0), at(1), at(2)];
}

const load = (): string => `load ${loadavg()[0]?.toFixed(1)}`;
const distinct = (n: number): string => `key-${n}`;
const cases = [
  { title: 'concurrency 1, distinct keys', concurrency: 1, keyOf: distinct },
  { title: 'concurrency 10, distinct keys', concurrency: 10, keyOf: distinct },
  { title: 'concurrency 50, distinct keys', concurrency: 50, keyOf: distinct },
  { title: 'concurrency 1, one key', concurrency: 1, keyOf: () => 'key' },
];
for (const { title, concurrency, keyOf } of cases) {
  const variants = kinds.map((kind) => new Jobs(kind, concurrency, keyOf));
  show(`${title} (${ROUNDS} rounds of ${COUNT} jobs, ${load()})`, await interleave(variants, ROUNDS, COUNT));
  for (const { name, costs } of variants) {
    // The first round was to warm up.
    const [calls, ownUs, redisUs] = medians(costs.slice(1));
    console.log(
      `${name}, for each job: EVALSHA ${calls.toFixed(2)}, CPU ${ownUs.toFixed(0)} µs here and ${redisUs.toFixed(0)} µs in Redis`,
    );
  }
}
await clearLast();

function showTimes(title: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((part) => percentile(sorted, part).toFixed(2));
  console.log(`\n${title} (n ${values.length}, ${load()})\np50 ${p50} ms, p90 ${p90} ms, p99 ${p99} ms`);
}

/** A job waits for its key, which somebody else holds; its worker has nothing else to do. */
async function handOffs(): Promise<number[]> {
  const name = `jobs-${queues++}`;
  const queue = new Queue(name, { connection });
  const holder = new LeaseManager({ store: redisStore(server.url) });
  let started = (_: number): void => {};
  const worker = new LeasedWorker<Data>(name, () => started(performance.now()), {
    connection,
    lease: { resource, manager },
  });
  await worker.waitUntilReady();
  const times: number[] = [];
  for (let n = 0; n < HAND_OFFS; n++) {
    const held = await holder.acquire('key');
    const start = new Promise<number>((resolve) => (started = resolve));
    const completed = new Promise((resolve) => worker.once('completed', resolve));
    await queue.add('job', { key: 'key' });
    while ((await queue.getDelayedCount()) === 0) await sleep(1);
    // Until everything is at rest.
    await sleep(20);
    const from = performance.now();
    await held.release();
    times.push((await start) - from);
    await completed;
  }
  await worker.close();
  await queue.close();
  await holder.close();
  return times;
}

interface Ran {
  readonly startedMs: number;
  readonly endedMs: number;
  readonly starts: number;
}

/** All jobs are of one key, and two processes are at them. */
async function hotKey(workMs: number): Promise<void> {
  const name = `jobs-${queues++}`;
  const queue = new Queue(name, { connection });
  const children = [1, 2].map(() =>
    startChild(new URL('../e2e/fixtures/bullmq-contender.ts', import.meta.url), {
      env: { REDIS_URL: server.url, QUEUE: name, PREFIX: name, WORK_MS: `${workMs}`, CONCURRENCY: '5' },
    }),
  );
  for (const child of children) await child.next('ready');
  await queue.addBulk(Array.from({ length: HOT_JOBS }, (_, n) => ({ name: 'job', data: { key: 'hot', n } })));
  const ran = (): Ran[] =>
    children.flatMap(({ unread }) => unread.filter(({ type }) => type === 'ran').map((said) => said as unknown as Ran));
  while (ran().length < HOT_JOBS) await sleep(20);
  for (const child of children) {
    child.send('close');
    await child.exit;
  }
  await queue.close();
  const turns = ran().toSorted((a, b) => a.startedMs - b.startedMs);
  const idle = turns.slice(1).map(({ startedMs }, index) => startedMs - (turns[index] as Ran).endedMs);
  showTimes(`one hot key, 2 processes × concurrency 5, jobs of ${workMs} ms: between two jobs`, idle);
  const starts = turns.map((turn) => turn.starts).toSorted((a, b) => a - b);
  const mean = starts.reduce((sum, count) => sum + count, 0) / starts.length;
  console.log(`starts for each job: mean ${mean.toFixed(2)}, most ${starts.at(-1)}`);
}

showTimes('from the release of a key to the start of its next job, by an idle worker', await handOffs());
await hotKey(5);
await hotKey(50);
await manager.close();
admin.disconnect();
