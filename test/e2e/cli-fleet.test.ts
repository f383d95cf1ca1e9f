import { fileURLToPath } from 'node:url';

import { Queue } from 'bullmq';
import { expect, inject, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { uniqueName } from '../support/redis-client.ts';

const bin = new URL('../../packages/cli/src/bin.ts', import.meta.url);
const FILE = fileURLToPath(new URL('./fixtures/run-config/fleet.yaml', import.meta.url));
const IS_LONG = process.env['LEASEHOLD_LONG'] === '1';
const ROUNDS = IS_LONG ? 12 : 1;
const TTL_MS = 1500;
const CUSTOMERS = ['a', 'b', 'c', 'd'];

// For a busy machine.
vi.setConfig({ testTimeout: 60_000 + ROUNDS * 30_000 });

function now(): number {
  return performance.timeOrigin + performance.now();
}

interface Tick {
  readonly tick: number;
  readonly token: number;
}
interface Import {
  readonly token: number;
  readonly at: number;
}
interface Paid {
  readonly id: string;
  readonly customer: string;
  readonly began: number;
  readonly ended: number;
}

/** Processes of `leasehold run` on one file, those that have ended among them. */
class Fleet implements AsyncDisposable {
  readonly payments: Queue;
  readonly imports: Queue;
  readonly members: Child[] = [];
  readonly #env: Readonly<Record<string, string>>;

  constructor() {
    const queue = uniqueName('queue');
    const { hostname, port } = new URL(inject('redisUrl'));
    const connection = { host: hostname, port: Number(port) };
    this.payments = new Queue(`${queue}-payments`, { connection });
    this.imports = new Queue(`${queue}-imports`, { connection });
    this.#env = { REDIS_URL: inject('redisUrl'), PREFIX: uniqueName('config'), QUEUE: queue };
  }

  async start(): Promise<Child> {
    const child = startChild(bin, { args: ['run', FILE], env: this.#env });
    this.members.push(child);
    await vi.waitFor(() => expect(child.output).toContain('"msg":"ready"'), 30_000);
    return child;
  }

  /** What was said of a type, by whomever. */
  said<T>(type: string): (T & { readonly by: Child })[] {
    return this.members.flatMap((by) =>
      by.unread.filter((message) => message.type === type).map((message) => ({ ...message, by }) as never),
    );
  }

  ticks(): (Tick & { readonly by: Child })[] {
    return this.said<Tick>('tick').toSorted((a, b) => a.tick - b.tick);
  }

  /** Who runs the job that never ends by itself, the first to begin first. */
  importing(): (Import & { readonly by: Child })[] {
    return this.said<Import>('importing').toSorted((a, b) => a.at - b.at);
  }

  /**
   * Behind a tick whose run has ended, so that whoever is hurt now holds none: one that is stopped inside of it would hold
   * the job, and the next tick would be skipped as overlapping.
   */
  async behindTick(): Promise<void> {
    const { length } = this.ticks();
    await vi.waitFor(
      () => {
        const last = this.ticks().at(-1);
        expect(this.ticks().length).toBeGreaterThan(length);
        const ends = last?.by.output.split('\n').filter((line) => line.includes('"run is done"')) ?? [];
        expect(ends.some((line) => line.includes(`"token":${last?.token}`))).toBe(true);
      },
      { timeout: 15_000, interval: 10 },
    );
  }

  async nextImport(after: number): Promise<Import & { readonly by: Child }> {
    return vi.waitFor(
      () => {
        const next = this.importing()[after];
        if (next === undefined) throw new Error('nobody has taken the import over');
        return next;
      },
      { timeout: 20_000, interval: 5 },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.members.map((member) => member.kill9()));
    for (const queue of [this.payments, this.imports]) {
      await queue.obliterate({ force: true });
      await queue.close();
    }
  }
}

test(`three processes of leasehold run, stopped, killed and restarted one after the other (rounds: ${ROUNDS}), lose no tick and double none`, async () => {
  await using fleet = new Fleet();
  const running = new Set(await Promise.all([fleet.start(), fleet.start(), fleet.start()]));
  // One of them runs; each other process waits with one of its own for the resource that they share.
  await fleet.imports.addBulk(Array.from({ length: 3 + 3 * ROUNDS }, () => ({ name: 'import', data: {} })));
  await fleet.nextImport(0);
  let paid = 0;
  const handOvers: number[] = [];
  const takeOvers: number[] = [];

  for (let round = 0; round < ROUNDS; round++) {
    const jobs = CUSTOMERS.flatMap((customer) => [1, 2, 3].map(() => ({ name: 'pay', data: { customer } })));
    await fleet.payments.addBulk(jobs);
    paid += jobs.length;

    // Stopped for longer than its lease, while it holds one.
    await fleet.behindTick();
    const stopped = fleet.importing().at(-1)?.by as Child;
    const before = fleet.importing().length;
    const stoppedAt = now();
    await stopped.stop();
    const successor = await fleet.nextImport(before);
    takeOvers.push(successor.at - stoppedAt);
    stopped.cont();
    await vi.waitFor(() => expect(stopped.output).toContain('LEASE_LOST'), 15_000);

    // Killed, beside the one that holds the import; another one takes its place.
    await fleet.behindTick();
    const killed = [...running].find((child) => child !== fleet.importing().at(-1)?.by);
    running.delete(killed as Child);
    await killed?.kill9();
    running.add(await fleet.start());

    // A deployment: each is replaced by a new one, which is ready before the old one is told to end.
    for (const old of [...running]) {
      running.add(await fleet.start());
      await fleet.behindTick();
      const held = fleet.importing();
      const holds = held.at(-1)?.by === old;
      running.delete(old);
      old.kill('SIGTERM');
      expect(await old.exit).toEqual({ code: 0, signal: null });
      const exitedAt = now();
      if (holds) handOvers.push((await fleet.nextImport(held.length)).at - exitedAt);
    }
  }
  await vi.waitFor(async () => expect(await fleet.payments.getCompletedCount()).toBe(paid), 30_000);
  await fleet.behindTick();

  const instants = fleet.ticks().map(({ tick }) => tick);
  expect(instants).toEqual(instants.map((_, index) => (instants[0] as number) + index * 1000));
  const tokens = fleet.ticks().map(({ token }) => token);
  expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
  const imports = fleet.importing().map(({ token }) => token);
  expect(imports).toEqual([...new Set(imports)].toSorted((a, b) => a - b));

  const done = fleet.said<Paid>('paid');
  expect(new Set(done.map(({ id }) => id)).size).toBe(paid);
  expect(done).toHaveLength(paid);
  for (const customer of CUSTOMERS) {
    const its = done.filter((each) => each.customer === customer).toSorted((a, b) => a.began - b.began);
    its.slice(1).forEach(({ began }, index) => expect(began).toBeGreaterThanOrEqual((its[index] as Paid).ended));
  }

  expect(handOvers.length).toBeGreaterThan(0);
  expect(Math.max(...handOvers)).toBeLessThan(200);
  if (IS_LONG) {
    const shown = (all: number[]): string => all.map((ms) => Math.round(ms)).join(' ');
    process.stdout.write(
      `${instants.length} ticks, ${paid} payments; from exit to the next owner, ms: ${shown(handOvers)}; from SIGSTOP to the next owner (ttl ${TTL_MS}), ms: ${shown(takeOvers)}\n`,
    );
  }
});
