import { performance } from 'node:perf_hooks';

import { installSchema } from '@leasehold/core/postgres';
import { Queue } from 'bullmq';
import { defineJob, runConfig, type JobContext, type LeaseholdConfig, type RunningConfig } from 'leasehold';
import pg, { type PoolClient } from 'pg';
import { pino } from 'pino';
import { expect, inject, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { createDatabase } from '../support/postgres.ts';
import { configFile } from '../support/programs.ts';
import { uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

const FLEET = configFile(new URL('./fixtures/run-config/fleet.yaml', import.meta.url));

// For a busy machine.
vi.setConfig({ testTimeout: 60_000 });

function now(): number {
  return performance.timeOrigin + performance.now();
}

interface Tick {
  readonly tick: number;
  readonly token: number;
  readonly member: Member;
}

interface Paid {
  readonly id: string;
  readonly customer: string;
  readonly resource: string;
  readonly began: number;
  readonly ended: number;
}

interface Member {
  readonly child: Child;
  readonly port: number;
}

/** Processes that run one file. */
class Fleet implements AsyncDisposable {
  readonly url = inject('redisUrl');
  readonly prefix = uniqueName('config');
  readonly queueName = uniqueName('queue');
  readonly payments = this.#queue('payments');
  readonly imports = this.#queue('imports');
  readonly #members: Child[] = [];
  readonly #env: Readonly<Record<string, string>>;

  constructor() {
    this.#env = { REDIS_URL: this.url, PREFIX: this.prefix, QUEUE: this.queueName };
  }

  async start(): Promise<Member> {
    const child = startChild(new URL('./fixtures/run-config/member.ts', import.meta.url), {
      args: [FLEET],
      env: this.#env,
    });
    this.#members.push(child);
    const { port } = await child.next<{ type: string; port: number }>('ready');
    return { child, port };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.map((member) => member.kill9()));
    for (const queue of [this.payments, this.imports]) {
      await queue.obliterate({ force: true });
      await queue.close();
    }
  }

  #queue(name: string): Queue {
    const { hostname, port } = new URL(this.url);
    return new Queue(`${this.queueName}-${name}`, { connection: { host: hostname, port: Number(port) } });
  }
}

/** Everything that was said of a type, by whomever, unread until now. */
function said<T>(members: readonly Member[], type: string): (T & { readonly member: Member })[] {
  return members.flatMap((member) =>
    member.child.unread
      .filter((message) => message.type === type)
      .map((message) => ({ ...message, member }) as unknown as T & { readonly member: Member }),
  );
}

async function get(
  port: number | undefined,
  path: string,
): Promise<{ readonly status: number; readonly body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.text() };
}

test('a fleet on one file runs each tick once and one job of a customer at a time, over a kill and a SIGTERM', async () => {
  await using fleet = new Fleet();
  const members = await Promise.all([fleet.start(), fleet.start(), fleet.start()]);
  const ticks = (): Tick[] => said<Tick>(members, 'tick').toSorted((a, b) => a.tick - b.tick);
  const customers = ['a', 'b', 'c'];
  await fleet.payments.addBulk(
    Array.from({ length: 12 }, (_, n) => ({ name: 'pay', data: { customer: customers[n % 3] } })),
  );
  const nameless = await fleet.payments.add('pay', { customer: '' }, { attempts: 3 });

  // A job in the hands of a process that dies comes back when BullMQ finds it stalled, after a minute.
  await vi.waitFor(async () => expect(await fleet.payments.getCompletedCount()).toBe(12), 15_000);

  // Whoever has run the last tick has nothing to do for the rest of the second: another one is killed.
  await vi.waitFor(() => expect(ticks().length).toBeGreaterThanOrEqual(1), 15_000);
  const first = ticks().at(-1) as Tick;
  const [victim, ...left] = members.filter((member) => member !== first.member) as [Member, Member];
  await victim.child.kill9();
  await vi.waitFor(() => expect(ticks().at(-1)?.tick).toBeGreaterThan(first.tick + 1000), 15_000);
  const [leaver] = left;
  leaver?.child.kill('SIGTERM');
  expect(await leaver?.child.exit).toEqual({ code: 0, signal: null });
  const atExit = ticks().at(-1)?.tick as number;
  await vi.waitFor(() => expect(ticks().at(-1)?.tick).toBeGreaterThan(atExit), 15_000);

  const instants = ticks().map(({ tick }) => tick);
  expect(instants).toEqual(instants.map((_, index) => (instants[0] as number) + index * 1000));
  const tokens = ticks().map(({ token }) => token);
  expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));

  const paid = said<Paid>(members, 'paid');
  expect(paid.map(({ id }) => id).toSorted()).toEqual([...new Set(paid.map(({ id }) => id))].toSorted());
  expect(paid).toHaveLength(12);
  for (const customer of customers) {
    const its = paid.filter((each) => each.customer === customer).toSorted((a, b) => a.began - b.began);
    expect(its.map(({ resource }) => resource)).toEqual(its.map(() => `customer:${customer}`));
    its.slice(1).forEach(({ began }, index) => expect(began).toBeGreaterThanOrEqual((its[index] as Paid).ended));
  }

  const [failed] = await fleet.payments.getFailed();
  expect(failed).toMatchObject({ id: nameless.id, attemptsMade: 1 });
  expect(failed?.failedReason).toMatch(/\{data\.customer\} is empty in this job/);
  expect(said<{ msg: string }>(members, 'log').filter(({ msg }) => msg === 'job failed')).toHaveLength(1);

  const { body } = await get(first.member.port, '/metrics');
  for (const name of [
    'leasehold_runs_total{job="every-second",outcome="done"}',
    'leasehold_run_duration_seconds_bucket{le="0.01",job="every-second"}',
    '# TYPE leasehold_ticks_skipped_total counter',
    'leasehold_operations_total{operation="acquire",outcome="granted"}',
    '# TYPE leasehold_lost_total counter',
    'leasehold_store_errors_total',
    'nodejs_eventloop_lag_seconds',
  ]) {
    expect(body).toContain(name);
  }
});

test('after the clean end of an owner the next one is in within 200 ms; a second signal ends it at once', async () => {
  await using fleet = new Fleet();
  const members = [await fleet.start(), await fleet.start()];
  await fleet.imports.add('import', {});
  const importing = () => said<{ token: number; at: number }>(members, 'importing');
  await vi.waitFor(() => expect(importing()).toHaveLength(1), 15_000);
  const [owner] = importing() as [ReturnType<typeof importing>[number]];
  // It waits in the other process, which has a free slot.
  await fleet.imports.add('import', { ignores: true });
  await vi.waitFor(async () => expect(await fleet.imports.getActiveCount()).toBe(2));
  owner.member.child.kill('SIGTERM');
  expect(await owner.member.child.exit).toEqual({ code: 0, signal: null });
  const ended = now();
  await vi.waitFor(() => expect(importing()).toHaveLength(2), 15_000);
  const { token, at, member } = importing().find(({ token }) => token !== owner.token) as typeof owner;
  expect(member).not.toBe(owner.member);
  expect(token).toBeGreaterThan(owner.token);
  expect(at - ended).toBeLessThan(200);
  console.log(`the next owner was in ${Math.round(at - ended)} ms after the exit of the one before`);

  member.child.kill('SIGTERM');
  const messages = () => said<{ msg: string }>([member], 'log').map(({ msg }) => msg);
  const closing = 'closing: no more work is taken; waiting for 1 run, 1 s left';
  await vi.waitFor(() => expect(messages()).toContain(closing), { interval: 10 });
  expect(await get(member.port, '/readyz')).toMatchObject({ status: 503 });
  member.child.kill('SIGINT');
  expect(await member.child.exit).toEqual({ code: 130, signal: null });
});

/** Runs in this process, and says nothing. */
async function run(
  config: LeaseholdConfig,
  handlers: Readonly<Record<string, (context: never) => unknown>>,
): Promise<RunningConfig> {
  return runConfig(config, { handlers, log: pino({ level: 'silent' }) });
}

test('while Redis is down the process is alive and not ready, and ready again when it is back', async () => {
  await using redis = await startRedis();
  const jobs = { tick: { cron: '* * * * * *', handler: './none.js', lease: { ttl: '600ms' } } } as const;
  const config: LeaseholdConfig = { version: 1, store: { redis: redis.url }, server: { listen: '127.0.0.1:0' }, jobs };
  let ticks = 0;
  await using running = await run(config, { tick: () => void ticks++ });
  await running.ready;
  const { port } = running;
  expect(await get(port, '/readyz')).toMatchObject({ status: 200 });
  await redis.kill();
  await vi.waitFor(async () => expect(await get(port, '/readyz')).toMatchObject({ status: 503 }), { interval: 10 });
  const { body } = await get(port, '/readyz');
  expect(JSON.parse(body)).toMatchObject({ status: 'degraded', error: expect.stringContaining('STORE_UNAVAILABLE') });
  expect(await get(port, '/livez')).toEqual({ status: 200, body: 'ok\n' });
  await redis.restart();
  await vi.waitFor(async () => expect(await get(port, '/readyz')).toMatchObject({ status: 200 }), 15_000);
  const before = ticks;
  await vi.waitFor(() => expect(ticks).toBeGreaterThan(before), 15_000);
  await running.close();
});

test('a fence in PostgreSQL is made from the config and found by its name', async () => {
  await using database = await createDatabase(inject('postgresUrl'));
  const pool = new pg.Pool({ connectionString: database.url });
  await installSchema(pool);
  const config: LeaseholdConfig = {
    version: 1,
    store: { redis: inject('redisUrl'), prefix: uniqueName('config') },
    fences: { ledger: { postgres: database.url } },
    jobs: { once: { every: '1h', handler: './none.js', lease: { fences: ['ledger'] } } },
  };
  const { promise: written, resolve } = withEnds<number>();
  const once = defineJob(async ({ fences, lease }: JobContext) => {
    const ledger = fences['ledger'];
    const count = await ledger?.write(
      lease,
      async (tx: PoolClient) => (await tx.query('select 42 as n')).rows[0]?.n as number,
    );
    resolve(count ?? 0);
  });
  await using running = await run(config, { once });
  expect(await written).toBe(42);
  await running.close();
  await pool.end();
});

function withEnds<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((its) => (resolve = its));
  return { promise, resolve };
}
