import { Redis } from 'ioredis';
import { cpus } from 'node:os';

import { RedisCluster } from '../support/redis-cluster.ts';
import type { Benchmark, Context } from './benchmark.ts';
import type { Hosted } from './host.ts';
import { percentile, sorted, sum } from './numbers.ts';
import { serverFigures } from './redis-figures.ts';
import { type Curve, rowOnce, type Table, target } from './report.ts';
import type { Extended, Held, ScaleLeasesSetup } from './variants/scale-leases.ts';

const DEFAULT_TTL_MS = 30_000;
const text = (value: number): string => Math.round(value).toLocaleString('en');

/** What all processes and the servers did in a slice. */
export interface Level {
  readonly leases: number;
  readonly ttlMs: number;
  readonly acquireS: number;
  readonly wanted: number;
  readonly perSecond: number;
  readonly calls: number;
  /** Of a core. */
  readonly redisPercent: number;
  readonly clientPercent: number;
  readonly redisUs: number;
  readonly clientUs: number;
  readonly inBytes: number;
  readonly outBytes: number;
  readonly heap: number;
  readonly memory: number;
  readonly connections: number;
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
  readonly worstCall: number;
  readonly leastTrust: number;
  /** Not acquired in time. */
  readonly refused: number;
  readonly lost: number;
  readonly unanswered: number;
}

export const benchmark: Benchmark = {
  name: 'scale-leases',
  title: 'Many leases held by many processes',
  method:
    'Processes hold leases on one Redis: first more and more of them with the default ttl, each level measured for one refresh interval (10 s), in which each lease is extended once; then as many with an ever shorter ttl, which is the load of that many more leases. All are acquired as fast as it goes, as after a deployment, so they are also due in heaps. Late is when a lease was confirmed, less when that was due (after a third of its ttl); what goes along with others is early. Bytes and CPU of Redis are its own figures (INFO). Then the same on a Cluster of three masters, where each lease is a command of its own; and with records kept compact by `hash-max-listpack-value 1024`.',
  packages: [],
  async run(context) {
    const { url } = await context.redis();
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const many = context.pick({ full: 10, quick: 4, smoke: 2 });
    const most = context.pick({ full: 100_000, quick: 8000, smoke: 20 });
    const processes = await start(context, many, { url, count: most / many, ttlMs: DEFAULT_TTL_MS });
    const fleet = new Fleet(processes, [admin]);

    const levels: Level[] = [];
    const baseline = (await serverFigures(admin)).memory;
    const sizes = context.pick({
      full: [1000, 3000, 10_000, 30_000, 100_000],
      quick: [2000, 8000],
      smoke: [10, 20],
    });
    const ttlMs = context.pick({ full: DEFAULT_TTL_MS, quick: 4500, smoke: 3000 });
    const ms = context.pick({ full: DEFAULT_TTL_MS / 3, quick: 1500, smoke: 20 });
    for (const leases of sizes) levels.push(await fleet.level({ leases, ttlMs, ms, baseline }));
    await fleet.drop();

    const some = context.pick({ full: 20_000, quick: 8000, smoke: 20 });
    const ttls = context.pick({ full: [6000, 3000, 1500, 750, 400, 200], quick: [1000, 400], smoke: [2000] });
    const rates: Level[] = [];
    for (const ttlMs of ttls) {
      const ms = context.pick({ full: 3000, quick: 1000, smoke: 20 });
      rates.push(await fleet.level({ leases: some, ttlMs, ms, baseline: NaN }));
      await fleet.drop();
    }

    const few = context.pick({ full: 10_000, quick: 2000, smoke: 20 });
    const variantTtl = context.pick({ full: 3000, quick: 1500, smoke: 3000 });
    const variantMs = context.pick({ full: 3000, quick: 1000, smoke: 20 });
    const variant = { leases: few, ttlMs: variantTtl, ms: variantMs };
    await admin.flushall();
    const plain = await fleet.level({ ...variant, baseline: (await serverFigures(admin)).memory });
    await fleet.drop();
    await admin.config('SET', 'hash-max-listpack-value', '1024');
    await admin.flushall();
    const compact = await fleet.level({ ...variant, baseline: (await serverFigures(admin)).memory });
    await fleet.drop();
    await fleet.close();
    const cluster = await onCluster(context, many, variant);

    const last = levels.at(-1) as Level;
    const kept = rates.filter(isKept);
    const losses = sum(levels.map(({ lost, refused }) => lost + refused));
    return {
      tables: [
        levelTable(levels, ttlMs),
        costTable(levels),
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
        leases: last.leases,
        ttlMs: last.ttlMs,
        extensionsPerSecond: last.perSecond,
        commandsPerSecond: last.calls,
        batch: last.perSecond / last.calls,
        redisUsPerExtension: last.redisUs,
        clientUsPerExtension: last.clientUs,
        redisPercent: last.redisPercent,
        clientPercent: last.clientPercent,
        inBytesPerExtension: last.inBytes,
        outBytesPerExtension: last.outBytes,
        memoryPerLease: last.memory,
        memoryPerLeaseCompact: compact.memory,
        heapPerLease: last.heap,
        connectionsPerProcess: last.connections,
        worstLateMs: last.worst,
        mostPerSecond: Math.max(...kept.map(({ perSecond }) => perSecond), 0),
        acquireUs: (last.acquireS * 1e6) / (last.leases - (levels.at(-2)?.leases ?? 0)),
        clusterRedisUsPerExtension: cluster.redisUs,
        clusterClientUsPerExtension: cluster.clientUs,
        clusterInBytesPerExtension: cluster.inBytes,
        clusterOutBytesPerExtension: cluster.outBytes,
        clusterConnectionsPerProcess: cluster.connections,
      },
    };
  },
};

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
      inBytes: (after.inBytes - before.inBytes) / extensions,
      outBytes: (after.outBytes - before.outBytes) / extensions,
      heap: sum(held.map((its) => its.heapPerLease)) / held.length,
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

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.close()));
  }

  #all<T>(method: string, args: object = {}): Promise<T[]> {
    return Promise.all(this.#processes.map((each) => each.call<T>(method, args)));
  }
}

function start(context: Context, many: number, setup: Omit<ScaleLeasesSetup, 'name'>): Promise<readonly Hosted[]> {
  return Promise.all(
    Array.from({ length: many }, (_, index) =>
      context.host('scale-leases', { ...setup, name: `process-${index}-` }, { execArgv: ['--expose-gc'] }),
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
  return level;
}

/** All were extended in time. */
const isKept = ({ lost, refused, perSecond, wanted }: Level): boolean =>
  lost + refused === 0 && perSecond >= 0.9 * wanted;

function levelTable(levels: readonly Level[], ttlMs: number): Table {
  return {
    title: `leases of ${ttlMs / 1000} s, more and more: how late an extension is`,
    unit: 'ms at p50',
    better: 'less',
    isOnce: true,
    rows: levels.map((level) =>
      rowOnce(`${text(level.leases)} held`, 'ours', level.p50, {
        p99: level.p99,
        worst: level.worst,
        'least trust left %': level.leastTrust * 100,
        'slowest call ms': level.worstCall,
        lost: level.lost,
        unanswered: level.unanswered,
        's to acquire': level.acquireS,
      }),
    ),
  };
}

function costTable(levels: readonly Level[]): Table {
  return {
    title: 'the same: what it costs',
    unit: 'extensions/s',
    better: 'more',
    isOnce: true,
    rows: levels.map((level) =>
      rowOnce(`${text(level.leases)} held`, 'ours', level.perSecond, {
        'commands/s': level.calls,
        'leases a command': level.perSecond / level.calls,
        'Redis, % of a core': level.redisPercent,
        'all clients, % of a core': level.clientPercent,
        'Redis µs for each': level.redisUs,
        'client µs for each': level.clientUs,
        'bytes to Redis': level.inBytes,
        'and back': level.outBytes,
        'Redis bytes a lease': level.memory,
        'heap bytes a lease': level.heap,
      }),
    ),
  };
}

function rateTable(rates: readonly Level[], leases: number): Table {
  return {
    title: `${text(leases)} leases with an ever shorter ttl`,
    unit: 'extensions/s',
    better: 'more',
    isOnce: true,
    rows: rates.map((level) =>
      rowOnce(
        `${level.ttlMs / 1000} s, as ${text((leases * DEFAULT_TTL_MS) / level.ttlMs)} of 30 s`,
        'ours',
        level.perSecond,
        {
          wanted: level.wanted,
          'commands/s': level.calls,
          'Redis, % of a core': level.redisPercent,
          'all clients, % of a core': level.clientPercent,
          'Redis µs for each': level.redisUs,
          'client µs for each': level.clientUs,
          'late p99 ms': level.p99,
          'worst ms': level.worst,
          lost: level.lost,
        },
      ),
    ),
  };
}

function variantTable(plain: Level, compact: Level, cluster: Level): Table {
  const row = (name: string, level: Level) =>
    rowOnce(name, 'ours', level.redisUs, {
      'client µs': level.clientUs,
      'commands for each': level.calls / level.perSecond,
      'bytes to Redis': level.inBytes,
      'and back': level.outBytes,
      ...(Number.isFinite(level.memory) && { 'Redis bytes a lease': level.memory }),
      'connections a process': level.connections,
      lost: level.lost,
    });
  return {
    title: `${text(plain.leases)} leases of ${plain.ttlMs / 1000} s: what an extension costs Redis`,
    unit: 'µs of its CPU',
    better: 'less',
    isOnce: true,
    rows: [
      row('one Redis', plain),
      row('one Redis, hash-max-listpack-value 1024', compact),
      row('a Cluster of three masters', cluster),
    ],
  };
}

function curvesOf(levels: readonly Level[], rates: readonly Level[], many: number): readonly Curve[] {
  const along = (of: (level: Level) => number) => levels.map((level) => [level.leases, of(level)] as const);
  const faster = (of: (level: Level) => number) => rates.map((level) => [level.wanted, of(level)] as const);
  return [
    {
      title: 'More and more leases: cores in use',
      x: 'leases held',
      y: '% of a core',
      lines: [
        { name: 'Redis', points: along(({ redisPercent }) => redisPercent) },
        { name: `${many} clients`, points: along(({ clientPercent }) => clientPercent) },
      ],
      bend: levelsBend(levels),
    },
    {
      title: 'More and more leases: how late an extension is',
      x: 'leases held',
      y: 'ms',
      lines: [
        { name: 'worst', points: along(({ worst }) => Math.max(0, worst)) },
        { name: 'p99', points: along(({ p99 }) => Math.max(0, p99)) },
        { name: 'p50', points: along(({ p50 }) => Math.max(0, p50)) },
      ],
    },
    {
      title: 'Shorter and shorter ttl: extensions that were due and that were made',
      x: 'due/s',
      y: 'made/s',
      lines: [
        { name: 'made', points: faster(({ perSecond }) => perSecond) },
        { name: 'due', points: faster(({ wanted }) => wanted) },
      ],
      bend: ratesBend(rates),
    },
    {
      title: 'Shorter and shorter ttl: cores in use',
      x: 'extensions due/s',
      y: '% of a core',
      lines: [
        { name: 'Redis', points: faster(({ redisPercent }) => redisPercent) },
        { name: `${many} clients`, points: faster(({ clientPercent }) => clientPercent) },
      ],
    },
  ];
}

function levelsBend(levels: readonly Level[]): string {
  const last = levels.at(-1) as Level;
  const lost = sum(levels.map((level) => level.lost));
  return `With ${text(last.leases)} leases Redis uses ${Math.round(last.redisPercent)} % of a core and all clients together ${Math.round(last.clientPercent)} %; ${lost === 0 ? 'none was lost' : `${text(lost)} were lost`}, and what is left of an owner's trust is at the least ${Math.round(last.leastTrust * 100)} % of the ttl. ${last.redisPercent + last.clientPercent < 80 * cpus().length ? 'Up to there nothing bends.' : 'The cores of the machine are full.'}`;
}

function ratesBend(rates: readonly Level[]): string {
  const kept = rates.filter(isKept);
  const [good, bad] = [kept.at(-1), rates.find((level) => !isKept(level))];
  const cores = cpus().length;
  const said = ({ perSecond, redisPercent, clientPercent }: Level): string =>
    `${text(perSecond)} a second (Redis ${Math.round(redisPercent)} % of a core, all clients ${Math.round(clientPercent)} %)`;
  const begin = good === undefined ? 'None of these was kept.' : `All were made in time up to ${said(good)}.`;
  if (bad === undefined) return `${begin} It does not bend up to there.`;
  const full =
    bad.redisPercent >= 90
      ? "Redis's one thread is full"
      : bad.redisPercent + bad.clientPercent >= 85 * cores
        ? `the ${cores} cores of this machine are full, which Redis and the clients share`
        : 'no core is full, but calls come too late for so short a ttl';
  return `${begin} It bends before ${text(bad.wanted)}: ${said(bad)} were made and ${text(bad.lost)} leases were lost, because ${full}.`;
}
