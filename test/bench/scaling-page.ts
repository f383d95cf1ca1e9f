// docs/scaling.md: the tables of its arithmetic and what was measured for it, from the JSON.
import { fileURLToPath } from 'node:url';

import { isScale } from './catalog.ts';
import { short } from './numbers.ts';
import { filled, reportPart, tableText, targetsPart } from './page.ts';
import { type Report, type Row, rowOf } from './report.ts';
import {
  type Constants,
  type Fleet,
  mastersFor,
  mastersToGain,
  mostLeases,
  needOf,
  PLANNED,
  type Spent,
  splitOf,
  usPerExtension,
} from './scaling.ts';

export const scalingPath: string = fileURLToPath(new URL('../../docs/scaling.md', import.meta.url));

const LEASES = 'scale-leases';
const NAMES = 'scale-names';
const counted = ['scale-short', 'scale-constants', 'scale-check', 'scale-ttl', 'scale-shards', 'scale-memory'] as const;

/** The page with its parts renewed. */
export function scaled(page: string, reports: readonly Report[]): string {
  const its = reports.filter(({ name }) => isScale(name));
  const parts = new Map([
    ['scale-targets', targetsPart(its)],
    ...its.map((report) => [report.name, reportPart(report)] as const),
  ]);
  const known = constantsOf(its);
  if (known !== undefined) {
    parts.set('scale-short', shortPart(known));
    parts.set('scale-constants', constantsPart(known, reports));
    parts.set('scale-check', checkPart(known, named(its, LEASES)?.constants ?? {}));
    parts.set('scale-ttl', ttlPart(known));
    parts.set('scale-shards', shardsPart(known));
    parts.set('scale-memory', memoryPart(known));
  }
  return filled(page, parts, (name) => isScale(name) || counted.some((each) => each === name));
}

const named = (reports: readonly Report[], name: string): Report | undefined =>
  reports.find((report) => report.name === name);

/** Undefined until both were measured. */
export function constantsOf(reports: readonly Report[]): Constants | undefined {
  const report = named(reports, LEASES);
  const [leases, pairs] = [report?.constants, named(reports, NAMES)?.constants];
  if (report === undefined || leases === undefined || pairs === undefined) return undefined;
  const of = (name: string): number => leases[name] ?? NaN;
  const level = (held: number): Row | undefined =>
    report.tables.flatMap(({ rows }) => rows).find((row) => row.name === `${count(held)} held` && US in row.more);
  const leasesPerCommand = level(of('leases'))?.more['leases a command'] ?? NaN;
  const many: Spent = {
    usPerExtension: of('redisUsPerExtension'),
    perSecond: level(of('leases'))?.value.median ?? NaN,
    leasesPerCommand,
  };
  // Runs that did not measure few leases a command have one a command, on a Cluster.
  const few: Spent = isSplit(leases)
    ? {
        usPerExtension: of('fewRedisUsPerExtension'),
        perSecond: of('fewPerSecond'),
        leasesPerCommand: of('fewLeasesPerCommand'),
      }
    : { usPerExtension: of('clusterRedisUsPerExtension'), perSecond: Infinity, leasesPerCommand: 1 };
  const redisIdleUs = isSplit(leases) ? of('redisIdleUs') : 0;
  return {
    ...leases,
    redisIdleUs,
    ...splitOf(many, few, redisIdleUs),
    clientUsPerExtensionFew: level(FEW_EACH * of('processes'))?.more['client µs for each'],
    redisUsPerPair: pairs['redisUsPerPair'],
    clientUsPerPair: pairs['clientUsPerPair'],
    inBytesPerPair: pairs['inBytesPerPair'],
    outBytesPerPair: pairs['outBytesPerPair'],
    memoryPerName: pairs['memoryPerName'],
  } as never;
}

const US = 'Redis µs for each';
/** Leases of a process, where k is told for few of them; as many as in the fleet of the first table. */
const FEW_EACH = 1000;

const isSplit = (leases: Readonly<Record<string, number>>): boolean => leases['fewRedisUsPerExtension'] !== undefined;

const MILLION: Fleet = { leases: 1_000_000, processes: 1000, ttlMs: 30_000 };

const count = (value: number): string => Math.round(value).toLocaleString('en');
/** Two digits that count: arithmetic is no better than that. */
const about = (value: number): string =>
  Number(value.toPrecision(2)).toLocaleString('en', { maximumSignificantDigits: 2 });
const bytes = (value: number): string =>
  value >= 1e9
    ? `${about(value / 1e9)} GB`
    : value >= 1e6
      ? `${about(value / 1e6)} MB`
      : value >= 1e4
        ? `${about(value / 1e3)} KB`
        : `${about(value)} bytes`;
/** One, where both are the same to two digits. */
const between = (least: number, most: number, as = about): string =>
  as(least) === as(most) ? as(least) : `${as(Math.min(least, most))} to ${as(Math.max(least, most))}`;

function shortPart(its: Constants): string {
  const need = needOf(MILLION, its);
  return tableText([
    ['1,000 processes, 1,000,000 leases of 30 s', 'by the formulas below'],
    ['extensions a second', about(need.extensionsPerSecond)],
    ['commands a second', between(need.fewestCommands, need.mostCommands)],
    ['Redis, % of a core', between(need.leastRedisPercent, need.redisPercent)],
    ['each process, % of a core', between(need.leastClientPercentEach, need.clientPercentEach)],
    ['network to Redis · back', `${bytes(need.inBytesPerSecond)}/s · ${bytes(need.outBytesPerSecond)}/s`],
    ['memory of Redis', bytes(need.memory)],
    ['the same with `hash-max-listpack-value 1024`', bytes(need.memoryCompact)],
    ['heap of each process', bytes(need.heapEach)],
    ['connections', count(need.connections)],
  ]);
}

function constantsPart(its: Constants, reports: readonly Report[]): string {
  const leases = named(reports, LEASES)?.constants ?? {};
  const us = (value: number): string => `${short(value)} µs`;
  const size = (value: number): string => `${count(value)} bytes`;
  const each = (name: string): string => count((leases[name] ?? NaN) / (leases['processes'] ?? NaN));
  return [
    tableText(
      [
        ['', 'what', 'measured'],
        [
          'i',
          'Redis CPU a second with nothing held',
          isSplit(leases) ? us(its.redisIdleUs) : 'not told apart, it is in c',
        ],
        [
          'g',
          `Redis CPU of a command that extends, without its leases; from commands of ${isSplit(leases) ? short(leases['fewLeasesPerCommand'] ?? NaN) : 'one lease, on the Cluster'}`,
          us(its.redisUsPerCommand),
        ],
        ['c', 'Redis CPU of a lease in such a command', us(its.redisUsPerExtension)],
        ['c₁', 'Redis CPU of an extension that is a command of its own (Cluster)', us(its.clusterRedisUsPerExtension)],
        ['a', 'Redis CPU of acquire and release', us(its.redisUsPerPair)],
        [
          'k',
          `client CPU of an extension: ${each('lastLeases')} leases a process, and ${count(FEW_EACH)}`,
          `${us(its.clientUsPerExtension)}, and ${us(its.clientUsPerExtensionFew)}`,
        ],
        ['k₁', 'client CPU of an extension on a Cluster', us(its.clusterClientUsPerExtension)],
        ['k₂', 'client CPU of acquire and release', us(its.clientUsPerPair)],
        ['b', 'bytes to Redis for an extension', short(its.inBytesPerExtension)],
        ['r', 'bytes back for a command', short(its.outBytesPerCommand)],
        ['b₁', 'bytes to a Cluster for an extension', short(its.clusterInBytesPerExtension)],
        ['r₁', 'bytes back from a Cluster for an extension', short(its.clusterOutBytesPerExtension)],
        ['b₂', 'bytes to Redis for acquire and release', short(its.inBytesPerPair)],
        ['r₂', 'bytes back for acquire and release', short(its.outBytesPerPair)],
        ['m', 'memory of Redis for a lease that is held', size(its.memoryPerLease)],
        ['m′', 'the same with `hash-max-listpack-value 1024`', size(its.memoryPerLeaseCompact)],
        ['n', 'memory of Redis for a name that is remembered', size(its.memoryPerName)],
        [
          'h',
          `heap of the process for a lease from \`acquire\`, ${each('lastLeases')} a process`,
          size(its.heapPerLease),
        ],
        ['v', 'connections of a process to one Redis', short(its.connectionsPerProcess)],
      ],
      [1],
    ),
    ...spreadText(reports),
    ...heapText(its, reports),
  ].join('\n');
}

/** Extensions a second, from which on what Redis spends on nothing is a small part. */
const BUSY = 2000;

/** How far the levels lie apart. */
function spreadText(reports: readonly Report[]): readonly string[] {
  const isKept = ({ value, more }: Row): boolean =>
    US in more && (more['lost'] ?? 0) === 0 && value.median >= 0.9 * (more['wanted'] ?? 0);
  const rows = (named(reports, LEASES)?.tables ?? [])
    .filter(({ unit }) => unit === 'extensions/s')
    .flatMap((table) => table.rows.filter(isKept));
  const range = (its: readonly Row[]): string => {
    const values = its.map(({ more }) => more[US] ?? NaN);
    return between(Math.min(...values), Math.max(...values), short);
  };
  const [slow, fast] = [rows.filter(isSlow), rows.filter((row) => !isSlow(row))];
  return [
    '',
    `All in all Redis spent ${range(fast)} µs on an extension at the levels of ${count(BUSY)} and more a second, and ${range(slow)} µs at those of fewer, where what it spends on nothing counts.`,
  ];
}

const isSlow = ({ value }: Row): boolean => value.median < BUSY;

function heapText(its: Constants, reports: readonly Report[]): readonly string[] {
  const table = named(reports, 'heap')?.tables[0];
  if (table === undefined) return [];
  const of = (name: string): string => count(rowOf(table, name)?.value.median ?? NaN);
  return [
    '',
    `h is what is freed when leases are let go, ${count(its.heapPerLease)} bytes. [performance.md](performance.md#memory-of-a-held-lease) has ${of('Leasehold acquire')}: what is added when they are acquired, of which some room stays after they are let go; it was not looked into closer. It has ${of('Leasehold run')} for a \`run\`, which keeps its body, its signal and its promise besides: count with that for runs.`,
  ];
}

/** The constants are of the level before: what is predicted was not measured there. */
function checkPart(its: Constants, measured: Readonly<Record<string, number>>): string {
  const of = (name: string): number => measured[name] ?? NaN;
  const fleet = { leases: of('lastLeases'), processes: of('processes'), ttlMs: of('lastTtlMs') };
  const need = needOf(fleet, its);
  const rows: [string, number, number][] = [
    ['extensions a second', need.extensionsPerSecond, of('lastExtensionsPerSecond')],
    ['KB/s to Redis', need.inBytesPerSecond / 1000, of('lastInBytesPerSecond') / 1000],
    ['MB of Redis', need.memory / 1e6, of('lastMemory') / 1e6],
    ['connections', need.connections, of('lastConnections')],
  ];
  const [commands, redis] = [of('lastCommandsPerSecond'), of('lastRedisPercent')];
  const more = (redis / need.redisPercent - 1) * 100;
  return [
    tableText([
      [
        `${count(fleet.leases)} leases in ${count(fleet.processes)} processes`,
        'predicted',
        'measured',
        'measured ÷ predicted',
      ],
      ['commands a second', `${short(need.fewestCommands)} to ${short(need.mostCommands)}`, short(commands), ''],
      [
        'Redis, % of a core',
        between(need.leastRedisPercent, need.redisPercent, short),
        short(redis),
        (redis / need.redisPercent).toFixed(2),
      ],
      ...rows.map(([what, predicted, got]) => [what, short(predicted), short(got), (got / predicted).toFixed(2)]),
    ]),
    '',
    `The constants are those of ${count(of('leases'))} leases; what is checked was measured with ${count(fleet.leases)}. k and h are of the latter; they, r, a, n and what belongs to acquisitions and to a Cluster are not checked. Redis needed ${count(Math.abs(more))} % ${more < 0 ? 'less' : 'more'} CPU than the most that was predicted: count with no better than that.`,
  ].join('\n');
}

function ttlPart(its: Constants): string {
  return tableText([
    [
      'ttl',
      'extensions/s of 1,000,000 leases',
      'Redis, % of a core',
      'network to Redis',
      `leases at ${PLANNED * 100} % of a core, 1,000 a process`,
    ],
    ...[5, 10, 30, 60, 300].map((seconds) => {
      const ttlMs = seconds * 1000;
      const need = needOf({ ...MILLION, ttlMs }, its);
      return [
        `${seconds} s`,
        about(need.extensionsPerSecond),
        between(need.leastRedisPercent, need.redisPercent),
        `${bytes(need.inBytesPerSecond)}/s`,
        about(mostLeases(ttlMs, usPerExtension(MILLION, its))),
      ];
    }),
  ]);
}

function shardsPart(its: Constants): string {
  const gain = mastersToGain(MILLION, its);
  return [
    `**A Cluster of fewer than ${gain} masters keeps fewer leases than one Redis**: an extension costs it ${about(its.clusterRedisUsPerExtension / usPerExtension(MILLION, its))} times as much.`,
    '',
    tableText([
      [
        'leases of 1,000 processes, ttl 30 s',
        'one Redis, % of a core',
        `several, each at ${PLANNED * 100} %`,
        `masters of a Cluster, each at ${PLANNED * 100} %`,
      ],
      ...[100_000, 1_000_000, 3_000_000, 10_000_000].map((leases) => {
        const fleet = { ...MILLION, leases };
        const { leastRedisPercent, redisPercent } = needOf(fleet, its);
        return [
          count(leases),
          redisPercent > 100 ? 'too much' : between(leastRedisPercent, redisPercent),
          count(Math.ceil(leases / mostLeases(fleet.ttlMs, usPerExtension(fleet, its)))),
          count(mastersFor(fleet, its)),
        ];
      }),
    ]),
  ].join('\n');
}

function memoryPart(its: Constants): string {
  const perDay = [10_000, 100_000, 1_000_000, 10_000_000];
  const days = [1 / 24, 1, 7];
  return tableText([
    [
      'names used once, a day',
      'Redis for them, % of a core',
      ...['1 h', '1 d', '7 d (default)'].map((text) => `retention ${text}`),
    ],
    ...perDay.map((names) => [
      count(names),
      about(((names / 86_400) * its.redisUsPerPair) / 1e4),
      ...days.map((kept) => bytes(names * kept * its.memoryPerName)),
    ]),
  ]);
}
