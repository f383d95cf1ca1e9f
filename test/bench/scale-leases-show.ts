// The tables and curves of `scale-leases`.
import { cpus } from 'node:os';

import { sum } from './numbers.ts';
import { type Curve, rowOnce, type Table } from './report.ts';

export const DEFAULT_TTL_MS = 30_000;
export const text = (value: number): string => Math.round(value).toLocaleString('en');

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

/** All were extended in time. */
export const isKept = ({ lost, refused, perSecond, wanted }: Level): boolean =>
  lost + refused === 0 && perSecond >= 0.9 * wanted;

export function levelTable(levels: readonly Level[], ttlMs: number): Table {
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

/** The heap is that of the last level. */
export function costTable(levels: readonly Level[], heapPerLease: number): Table {
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
        ...(level === levels.at(-1) && { 'heap bytes a lease': heapPerLease }),
      }),
    ),
  };
}

/** What Redis spends with nothing held, and with few leases a command. */
export function fewTable(idle: Level, few: Level, many: number): Table {
  const row = (name: string, level: Level) =>
    rowOnce(name, 'ours', level.redisPercent, {
      'all clients, % of a core': level.clientPercent,
      'commands/s': level.calls,
      ...(level.leases > 0 && {
        'extensions/s': level.perSecond,
        'leases a command': level.perSecond / level.calls,
        'Redis µs for each': level.redisUs,
        'client µs for each': level.clientUs,
        lost: level.lost,
      }),
    });
  return {
    title: 'none held, and few leases a command',
    unit: 'Redis, % of a core',
    better: 'less',
    isOnce: true,
    rows: [row(`${few.leases / many} in each process, of ${few.ttlMs / 1000} s`, few), row('none held', idle)],
  };
}

export function rateTable(rates: readonly Level[], leases: number): Table {
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
          'not acquired': level.refused,
          lost: level.lost,
        },
      ),
    ),
  };
}

export function variantTable(plain: Level, compact: Level, cluster: Level): Table {
  const row = (name: string, level: Level) =>
    rowOnce(name, 'ours', level.redisUs, {
      'client µs': level.clientUs,
      'leases a command': level.perSecond / level.calls,
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

export function curvesOf(levels: readonly Level[], rates: readonly Level[], many: number): readonly Curve[] {
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
  return `${begin} It bends before ${text(bad.wanted)}: ${said(bad)} were made, ${text(bad.refused)} leases could not be acquired and ${text(bad.lost)} were lost, because ${full}.`;
}
