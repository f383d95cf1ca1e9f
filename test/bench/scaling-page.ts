// docs/scaling.md: the tables of its arithmetic and what was measured for it, from the JSON.
import { fileURLToPath } from 'node:url';

import { isScale } from './catalog.ts';
import { short } from './numbers.ts';
import { filled, reportPart, tableText, targetsPart } from './page.ts';
import type { Report } from './report.ts';
import { type Constants, type Fleet, mastersFor, mastersToGain, mostLeases, needOf, PLANNED } from './scaling.ts';

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
    parts.set('scale-constants', constantsPart(known));
    parts.set('scale-check', checkPart(known, its.find(({ name }) => name === LEASES)?.constants ?? {}));
    parts.set('scale-ttl', ttlPart(known));
    parts.set('scale-shards', shardsPart(known));
    parts.set('scale-memory', memoryPart(known));
  }
  return filled(page, parts, (name) => isScale(name) || counted.some((each) => each === name));
}

/** Undefined until both were measured. */
export function constantsOf(reports: readonly Report[]): Constants | undefined {
  const of = (name: string) => reports.find((report) => report.name === name)?.constants;
  const [leases, names] = [of(LEASES), of(NAMES)];
  if (leases === undefined || names === undefined) return undefined;
  return { ...leases, redisUsPerPair: names['redisUsPerPair'], memoryPerName: names['memoryPerName'] } as never;
}

const MILLION: Fleet = { leases: 1_000_000, processes: 1000, ttlMs: 30_000 };

const count = (value: number): string => Math.round(value).toLocaleString('en');
const percent = (value: number): string => `${short(value)} %`;
const bytes = (value: number): string =>
  value >= 1e9
    ? `${short(value / 1e9)} GB`
    : value >= 1e6
      ? `${short(value / 1e6)} MB`
      : value >= 1e4
        ? `${short(value / 1e3)} KB`
        : `${count(value)} bytes`;

function shortPart(its: Constants): string {
  const need = needOf(MILLION, its);
  return tableText([
    ['1,000 processes, 1,000,000 leases of 30 s', 'by the formulas below'],
    ['extensions a second', count(need.extensionsPerSecond)],
    ['commands a second', `${count(need.fewestCommands)} to ${count(need.mostCommands)}`],
    ['Redis, of its one core', percent(need.redisPercent)],
    ['each process, of a core', percent(need.clientPercentEach)],
    ['network to Redis · back', `${bytes(need.inBytesPerSecond)}/s · ${bytes(need.outBytesPerSecond)}/s`],
    ['memory of Redis', bytes(need.memory)],
    ['the same with `hash-max-listpack-value 1024`', bytes(need.memoryCompact)],
    ['heap of each process', bytes(need.heapEach)],
    ['connections', count(need.connections)],
  ]);
}

function constantsPart(its: Constants): string {
  return tableText(
    [
      ['', 'what', 'measured'],
      ['c', 'Redis CPU of an extension, in commands of hundreds', `${short(its.redisUsPerExtension)} µs`],
      [
        'c₁',
        'Redis CPU of an extension that is a command of its own (Cluster)',
        `${short(its.clusterRedisUsPerExtension)} µs`,
      ],
      ['a', 'Redis CPU of acquire and release', `${short(its.redisUsPerPair)} µs`],
      ['k', 'client CPU of an extension', `${short(its.clientUsPerExtension)} µs`],
      ['k₁', 'client CPU of an extension on a Cluster', `${short(its.clusterClientUsPerExtension)} µs`],
      ['b', 'bytes to Redis for an extension', short(its.inBytesPerExtension)],
      ['r', 'bytes back for a command', short(its.outBytesPerCommand)],
      ['b₁', 'bytes to a Cluster for an extension', short(its.clusterInBytesPerExtension)],
      ['r₁', 'bytes back from a Cluster for an extension', short(its.clusterOutBytesPerExtension)],
      ['m', 'memory of Redis for a lease that is held', `${count(its.memoryPerLease)} bytes`],
      ['m′', 'the same with `hash-max-listpack-value 1024`', `${count(its.memoryPerLeaseCompact)} bytes`],
      ['n', 'memory of Redis for a name that is remembered', `${count(its.memoryPerName)} bytes`],
      ['h', 'heap of the process for a lease', `${count(its.heapPerLease)} bytes`],
      ['v', 'connections of a process to one Redis', short(its.connectionsPerProcess)],
    ],
    [1],
  );
}

/** The constants are of the level before: what is predicted was not measured there. */
function checkPart(its: Constants, measured: Readonly<Record<string, number>>): string {
  const of = (name: string): number => measured[name] ?? NaN;
  const fleet = { leases: of('lastLeases'), processes: of('processes'), ttlMs: of('lastTtlMs') };
  const need = needOf(fleet, its);
  const rows: [string, number, number][] = [
    ['extensions a second', need.extensionsPerSecond, of('lastExtensionsPerSecond')],
    ['Redis, % of a core', need.redisPercent, of('lastRedisPercent')],
    ['KB/s to Redis', need.inBytesPerSecond / 1000, of('lastInBytesPerSecond') / 1000],
    ['MB of Redis', need.memory / 1e6, of('lastMemory') / 1e6],
    ['connections', need.connections, of('lastConnections')],
  ];
  const commands = of('lastCommandsPerSecond');
  return [
    tableText([
      [
        `${count(fleet.leases)} leases in ${count(fleet.processes)} processes`,
        'predicted',
        'measured',
        'measured ÷ predicted',
      ],
      ['commands a second', `${short(need.fewestCommands)} to ${short(need.mostCommands)}`, short(commands), ''],
      ...rows.map(([what, predicted, got]) => [what, short(predicted), short(got), (got / predicted).toFixed(2)]),
    ]),
    '',
    `The constants are those of ${count(of('leases'))} leases; what is checked was measured with ${count(fleet.leases)}. Only k is of the latter, and not checked.`,
  ].join('\n');
}

function ttlPart(its: Constants): string {
  return tableText([
    [
      'ttl',
      'extensions/s of 1,000,000 leases',
      'Redis, of its core',
      'network to Redis',
      `leases at ${PLANNED * 100} % of its core`,
    ],
    ...[5, 10, 30, 60, 300].map((seconds) => {
      const ttlMs = seconds * 1000;
      const need = needOf({ ...MILLION, ttlMs }, its);
      return [
        `${seconds} s`,
        count(need.extensionsPerSecond),
        percent(need.redisPercent),
        `${bytes(need.inBytesPerSecond)}/s`,
        count(mostLeases(ttlMs, its.redisUsPerExtension)),
      ];
    }),
  ]);
}

function shardsPart(its: Constants): string {
  const gain = mastersToGain(its);
  return [
    `**A Cluster of fewer than ${gain} masters keeps fewer leases than one Redis**: an extension costs it ${short(its.clusterRedisUsPerExtension / its.redisUsPerExtension)} times as much.`,
    '',
    tableText([
      [
        'leases, ttl 30 s',
        'one Redis, of its core',
        `several, each at ${PLANNED * 100} %`,
        `masters of a Cluster, each at ${PLANNED * 100} %`,
      ],
      ...[100_000, 1_000_000, 3_000_000, 10_000_000].map((leases) => {
        const fleet = { ...MILLION, leases };
        const { redisPercent } = needOf(fleet, its);
        return [
          count(leases),
          redisPercent > 100 ? 'too much' : percent(redisPercent),
          count(Math.ceil(leases / mostLeases(fleet.ttlMs, its.redisUsPerExtension))),
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
      'Redis CPU for them',
      ...['1 h', '1 d', '7 d (default)'].map((text) => `retention ${text}`),
    ],
    ...perDay.map((names) => [
      count(names),
      percent(((names / 86_400) * its.redisUsPerPair) / 1e4),
      ...days.map((kept) => bytes(names * kept * its.memoryPerName)),
    ]),
  ]);
}
