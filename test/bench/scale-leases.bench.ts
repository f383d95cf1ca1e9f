import { Redis } from 'ioredis';

import { RedisCluster } from '../support/redis-cluster.ts';
import type { Benchmark, Context } from './benchmark.ts';
import type { Hosted } from './host.ts';
import { percentile, sorted, sum } from './numbers.ts';
import { serverFigures } from './redis-figures.ts';
import { target } from './report.ts';
import {
  costTable,
  curvesOf,
  DEFAULT_TTL_MS,
  fewTable,
  isKept,
  type Level,
  levelTable,
  rateTable,
  text,
  variantTable,
} from './scale-leases-show.ts';
import type { Extended, Held, ScaleLeasesSetup } from './variants/scale-leases.ts';

export const benchmark: Benchmark = {
  name: 'scale-leases',
  title: 'Many leases held by many processes',
  method:
    'Processes hold leases on one Redis: first more and more of them with the default ttl (and before that none, and a few with a short one), each level measured for one refresh interval (10 s), in which each lease is extended once; then as many with an ever shorter ttl, which is the load of that many more leases. All are acquired as fast as it goes, as after a deployment, so they are also due in heaps. Late is when a lease was confirmed, less when that was due (after a third of its ttl); what goes along with others is early. Bytes and CPU of Redis are its own figures (INFO). Then the same on a Cluster of three masters, where each lease is a command of its own; and with records kept compact by `hash-max-listpack-value 1024`.',
  packages: [],
  async run(context) {
    const { url } = await context.redis();
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const many = context.pick({ full: 10, quick: 2, smoke: 2 });
    const most = context.pick({ full: 100_000, quick: 4000, smoke: 20 });
    const processes = await start(context, many, { url, count: most / many, ttlMs: DEFAULT_TTL_MS });
    const fleet = new Fleet(processes, [admin]);

    await warmUp(context, fleet, admin);
    const levels: Level[] = [];
    // What Redis spends on nothing, and what a command costs that has few leases.
    const longMs = context.pick({ full: 10_000, quick: 1500, smoke: 20 });
    const idle = await fleet.level({ leases: 0, ttlMs: 300, ms: longMs, baseline: NaN });
    const few = await fleet.level({ leases: many * FEW, ttlMs: 300, ms: longMs, baseline: NaN });
    await fleet.drop();
    await admin.flushall();
    const baseline = (await serverFigures(admin)).memory;
    const sizes = context.pick({
      full: [1000, 3000, 10_000, 30_000, 100_000],
      quick: [1000, 4000],
      smoke: [10, 20],
    });
    const ttlMs = context.pick({ full: DEFAULT_TTL_MS, quick: 4500, smoke: 3000 });
    const ms = context.pick({ full: DEFAULT_TTL_MS / 3, quick: 1500, smoke: 20 });
    for (const leases of sizes) levels.push(await fleet.level({ leases, ttlMs, ms, baseline }));
    const full = await fleet.heap();
    await fleet.drop();
    const heapPerLease = (full - (await fleet.heap())) / most;
    await warmUp(context, fleet, admin);

    const middle = context.pick({ full: 10_000, quick: 2000, smoke: 20 });
    const variantTtl = context.pick({ full: 3000, quick: 1500, smoke: 3000 });
    const variantMs = context.pick({ full: 3000, quick: 1000, smoke: 20 });
    const variant = { leases: middle, ttlMs: variantTtl, ms: variantMs };
    await admin.flushall();
    const plain = await fleet.level({ ...variant, baseline: (await serverFigures(admin)).memory });
    await fleet.drop();
    await admin.config('SET', 'hash-max-listpack-value', '1024');
    await admin.flushall();
    const compact = await fleet.level({ ...variant, baseline: (await serverFigures(admin)).memory });
    await fleet.drop();
    await admin.config('SET', 'hash-max-listpack-value', '64');
    await admin.flushall();
    const cluster = await onCluster(context, many, variant);

    const some = context.pick({ full: 20_000, quick: 4000, smoke: 20 });
    const ttls = context.pick({ full: [6000, 3000, 1500, 750, 400, 200], quick: [1000], smoke: [2000] });
    const rates: Level[] = [];
    for (const ttlMs of ttls) {
      // So many whole rounds: all are due together.
      const round = ttlMs / 3;
      const ms = context.pick({
        full: Math.ceil(3000 / round) * round,
        quick: Math.ceil(1000 / round) * round,
        smoke: 20,
      });
      rates.push(await fleet.level({ leases: some, ttlMs, ms, baseline: NaN }));
      await fleet.drop();
      // What comes after it says nothing new.
      if (!isKept(rates.at(-1) as Level)) break;
    }
    await fleet.close();

    const [known, last] = levels.slice(-2) as [Level, Level];
    const kept = rates.filter(isKept);
    const losses = sum(levels.map(({ lost, refused }) => lost + refused));
    return {
      tables: [
        levelTable(levels, ttlMs),
        costTable(levels, heapPerLease),
        fewTable(idle, few, many),
        rateTable(rates, some),
        variantTable(plain, compact, cluster),
      ],
      curves: curvesOf(levels, rates, many),
      targets: [
        target(`leases lost of ${text(last.leases)}`, 'at most', 0, losses),
        target('an extension is late by, at most', 'at most', 1000, last.worst, 'ms'),
      ],
      constants: {
        processes: many,
        // Those of the level before are what is counted with, so that the last one checks them.
        leases: known.leases,
        redisUsPerExtension: known.redisUs,
        redisIdleUs: idle.redisPercent * 1e4,
        fewRedisUsPerExtension: few.redisUs,
        fewPerSecond: few.perSecond,
        fewLeasesPerCommand: few.perSecond / few.calls,
        // Below, most of it is what Node needs to compile.
        clientUsPerExtension: last.clientUs,
        inBytesPerExtension: known.inBytes,
        outBytesPerCommand: (known.outBytes * known.perSecond) / known.calls,
        memoryPerLease: known.memory,
        heapPerLease,
        connectionsPerProcess: known.connections,
        memoryPerLeaseCompact: compact.memory,
        clusterRedisUsPerExtension: cluster.redisUs,
        clusterClientUsPerExtension: cluster.clientUs,
        clusterInBytesPerExtension: cluster.inBytes,
        clusterOutBytesPerExtension: cluster.outBytes,
        lastLeases: last.leases,
        lastTtlMs: last.ttlMs,
        lastExtensionsPerSecond: last.perSecond,
        lastCommandsPerSecond: last.calls,
        lastRedisPercent: last.redisPercent,
        lastInBytesPerSecond: last.inBytes * last.perSecond,
        lastMemory: last.memory * last.leases,
        lastConnections: last.connections * many,
        mostPerSecond: Math.max(...kept.map(({ perSecond }) => perSecond), 0),
      },
    };
  },
};

/** Of a process, all due together. */
const FEW = 5;

interface Wanted {
  readonly leases: number;
  readonly ttlMs: number;
  readonly ms: number;
  /** Redis's memory with none of them; NaN if it is not to be told. */
  readonly baseline: number;
}

class Fleet {
  readonly #processes: readonly Hosted[];
  readonly #servers: readonly Redis[];
  #lost = 0;
  #unanswered = 0;

  constructor(processes: readonly Hosted[], servers: readonly Redis[]) {
    this.#processes = processes;
    this.#servers = servers;
  }

  async level({ leases, ttlMs, ms, baseline }: Wanted): Promise<Level> {
    const each = leases / this.#processes.length;
    const from = performance.now();
    const held = await this.#all<Held>('hold', { count: each, ttlMs });
    // Without what they measure of themselves.
    const acquireS = Math.min(performance.now() - from, Math.max(...held.map((its) => its.ms))) / 1000;
    // To ask is answered with some kilobytes.
    const asked = await serverFigures(...this.#servers);
    const before = await serverFigures(...this.#servers);
    const extended = await this.#all<Extended>('keep', { ms });
    const after = await serverFigures(...this.#servers);
    const extensions = sum(extended.map((its) => its.extensions));
    const slowestMs = Math.max(...extended.map((its) => its.ms));
    const late = sorted(extended.flatMap(({ lateMs }) => [...lateMs]));
    const cpuUs = after.cpuUs - before.cpuUs;
    const clientUs = sum(extended.map((its) => its.cpuUs));
    const calls = (after.calls.get('evalsha') ?? 0) - (before.calls.get('evalsha') ?? 0);
    const [lost, unanswered] = [sum(extended.map((its) => its.lost)), sum(extended.map((its) => its.unanswered))];
    const level = {
      ...{ leases, ttlMs, acquireS },
      wanted: (leases * 3000) / ttlMs,
      perSecond: (extensions / slowestMs) * 1000,
      calls: (calls / slowestMs) * 1000,
      redisPercent: cpuUs / slowestMs / 10,
      clientPercent: clientUs / slowestMs / 10,
      redisUs: cpuUs / extensions,
      clientUs: clientUs / extensions,
      inBytes: (after.inBytes - 2 * before.inBytes + asked.inBytes) / extensions,
      outBytes: (after.outBytes - 2 * before.outBytes + asked.outBytes) / extensions,
      memory: (after.memory - baseline) / leases,
      // All but those of whoever asks.
      connections: (after.connections - this.#servers.length) / this.#processes.length,
      p50: percentile(late, 0.5),
      p99: percentile(late, 0.99),
      worst: late.at(-1) ?? NaN,
      worstCall: Math.max(...extended.map((its) => its.worstCallMs)),
      leastTrust: Math.min(...extended.map((its) => its.leastTrust)),
      refused: sum(held.map((its) => its.refused)),
      lost: lost - this.#lost,
      unanswered: unanswered - this.#unanswered,
    };
    [this.#lost, this.#unanswered] = [lost, unanswered];
    return level;
  }

  async drop(): Promise<void> {
    await this.#all('drop');
  }

  /** Of all processes, bytes. */
  async heap(): Promise<number> {
    return sum(await this.#all<number>('heap'));
  }

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.close()));
  }

  #all<T>(method: string, args: object = {}): Promise<T[]> {
    return Promise.all(this.#processes.map((each) => each.call<T>(method, args)));
  }
}

/** Code is compiled for good after some ten thousand extensions of a process: before, each costs it five times as much. */
async function warmUp(context: Context, fleet: Fleet, admin: Redis): Promise<void> {
  const how = context.pick({ full: { leases: 20_000, ms: 6000 }, quick: null, smoke: null });
  if (how === null) return;
  await fleet.level({ ...how, ttlMs: 3000, baseline: NaN });
  await fleet.drop();
  await admin.flushall();
}

function start(context: Context, many: number, setup: Omit<ScaleLeasesSetup, 'name'>): Promise<readonly Hosted[]> {
  return Promise.all(
    Array.from({ length: many }, (_, index) =>
      context.host(
        'scale-leases',
        { ...setup, name: `process-${index}-` },
        { execArgv: ['--expose-gc', '--no-flush-bytecode'] },
      ),
    ),
  );
}

async function onCluster(context: Context, many: number, variant: Omit<Wanted, 'baseline'>): Promise<Level> {
  const masters = await RedisCluster.start(context.pick({ full: 3, quick: 3, smoke: 1 }));
  context.onEnd(() => masters.stop());
  const setup = { url: '', cluster: masters.addresses, count: variant.leases / many, ttlMs: DEFAULT_TTL_MS };
  const fleet = new Fleet(
    await start(context, many, setup),
    masters.members.map(({ raw }) => raw),
  );
  const level = await fleet.level({ ...variant, baseline: NaN });
  await fleet.drop();
  await fleet.close();
  return level;
}
