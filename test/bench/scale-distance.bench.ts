import { Redis } from 'ioredis';

import { TcpProxy } from '../support/proxy.ts';
import type { Benchmark, Context } from './benchmark.ts';
import type { Hosted } from './host.ts';
import { percentile, sorted } from './numbers.ts';
import { serverFigures } from './redis-figures.ts';
import { rowOnce, type Table, target } from './report.ts';
import { nowUs, type Measured } from './side.ts';
import type { Calls, Endurance } from './variants/scale-distance.ts';
import type { Extended } from './variants/scale-leases.ts';
import { turnsOf } from './scale-waiters.bench.ts';
import type { Turns } from './variants/scale-waiters.ts';

const EACH_WAY_MS = [0, 5, 50];
const WIDTHS = [1, 10, 100];

interface Distance {
  readonly eachWayMs: number;
  readonly calls: Calls;
  readonly handOffUs: number;
  readonly runs: readonly { readonly width: number; readonly perSecond: number; readonly p50Us: number }[];
  readonly extended: Extended & { readonly commands: number };
  readonly endured: readonly Endurance[];
}

export const benchmark: Benchmark = {
  name: 'scale-distance',
  title: 'A Redis that is far away',
  method:
    'A proxy between the processes and Redis makes everything late by 0, 5 or 50 ms each way. A round trip is what PING takes through it. One operation at a time, then run() with 1, 10 and 100 at once on as many names, a hand-off between two processes, a thousand leases that are kept, and leases with ever shorter ttl to see which can be kept at all.',
  packages: [],
  async run(context) {
    const server = await context.redis();
    const admin = new Redis(server.url);
    context.onEnd(async () => admin.disconnect());
    const proxy = await TcpProxy.start({ port: server.port });
    context.onEnd(() => proxy.close());
    const url = proxy.redisUrl;
    const leases = context.pick({ full: 1000, quick: 500, smoke: 10 });
    const ttlMs = context.pick({ full: 6000, quick: 1500, smoke: 3000 });
    const held = { url, count: leases, name: 'held-', ttlMs };
    const sides = {
      far: await context.host('scale-distance', { url }),
      runner: await context.host('locks', { url, way: 'run' }),
      one: await context.host('scale-waiters', { url, variant: 'leasehold' }),
      other: await context.host('scale-waiters', { url, variant: 'leasehold' }),
      keeper: await context.host('scale-leases', held, { execArgv: ['--expose-gc'] }),
    };
    const distances: Distance[] = [];
    for (const eachWayMs of context.pick({ full: EACH_WAY_MS, quick: EACH_WAY_MS, smoke: [0, 1] })) {
      proxy.delay({ up: eachWayMs, down: eachWayMs });
      const calls = await sides.far.call<Calls>('calls', {
        count: context.pick({ full: 20, quick: 3, smoke: 1 }),
      });
      const tripMs = Math.max(calls.pingUs / 1000, 0.2);
      const runs: Distance['runs'][number][] = [];
      for (const width of WIDTHS) {
        const its = await runsAtOnce(context, sides.runner, width, tripMs);
        runs.push({ width, ...its });
      }
      const handOffUs = await handOff(context, [sides.one, sides.other], eachWayMs);
      await sides.keeper.call('hold', { count: leases, ttlMs });
      const ms = context.pick({ full: ttlMs / 3, quick: ttlMs / 3, smoke: 10 });
      const before = await serverFigures(admin);
      const extended = await sides.keeper.call<Extended>('keep', { ms });
      const after = await serverFigures(admin);
      await sides.keeper.call('drop');
      const commands = (after.calls.get('evalsha') ?? 0) - (before.calls.get('evalsha') ?? 0);
      const endured = await sides.far.call<Endurance[]>('endure', {
        ttls: context.pick({
          full: [100, 200, 350, 500, 750, 1000, 2000],
          quick: [100, 300, 500, 1000],
          smoke: [1000],
        }),
        leases: 20,
        ms: context.pick({ full: 4000, quick: 800, smoke: 10 }),
      });
      distances.push({ eachWayMs, calls, runs, handOffUs, extended: { ...extended, commands }, endured });
    }
    const far = distances.at(-1) as Distance;
    const trips = (us: number, { calls }: Distance): number => us / calls.pingUs;
    return {
      tables: [
        callsTable(distances),
        runsTable(distances),
        extensionsTable(distances, leases, ttlMs),
        ttlTable(distances),
      ],
      curves: [
        {
          title: 'What takes how long',
          x: 'ms each way',
          y: 'ms',
          isLinear: true,
          lines: [
            { name: 'hand-off', points: distances.map((its) => [its.eachWayMs, its.handOffUs / 1000] as const) },
            {
              name: 'acquire + release',
              points: distances.map(
                (its) => [its.eachWayMs, (its.calls.acquireUs + its.calls.releaseUs) / 1000] as const,
              ),
            },
            { name: 'acquire', points: distances.map((its) => [its.eachWayMs, its.calls.acquireUs / 1000] as const) },
            { name: 'PING', points: distances.map((its) => [its.eachWayMs, its.calls.pingUs / 1000] as const) },
          ],
          bend: `Straight lines: ${trips(far.calls.acquireUs, far).toFixed(2)} round trips to acquire, ${trips(far.calls.releaseUs, far).toFixed(2)} to release and ${trips(far.handOffUs, far).toFixed(2)} for a hand-off, at ${far.eachWayMs} ms each way.`,
        },
        {
          title: 'run() a second',
          x: 'at once',
          y: 'runs/s',
          lines: distances.map(({ eachWayMs, runs }) => ({
            name: `${eachWayMs} ms each way`,
            points: runs.map(({ width, perSecond }) => [width, perSecond] as const),
          })),
          bend: `Where the way is long the process does nothing but wait, so that ten times as many at once are ten times as fast; where it is short the cores are full with ten.`,
        },
      ],
      targets: [
        target('far away: an acquisition', 'at most', 1.1, trips(far.calls.acquireUs, far), 'round trips'),
        target('far away: a release', 'at most', 1.1, trips(far.calls.releaseUs, far), 'round trips'),
        target('far away: a hand-off', 'at most', 2.2, trips(far.handOffUs, far), 'round trips'),
        target('leases lost at any distance', 'at most', 0, far.extended.lost),
      ],
      constants: {
        roundTripMs: far.calls.pingUs / 1000,
        tripsToAcquire: trips(far.calls.acquireUs, far),
        tripsToRelease: trips(far.calls.releaseUs, far),
        tripsToHandOver: trips(far.handOffUs, far),
        shortestKeptTtlMs: shortestKept(far),
        advisedTtlMs: far.extended.shortestTtlMs,
      },
    };
  },
};

async function runsAtOnce(
  context: Context,
  side: Hosted,
  width: number,
  tripMs: number,
): Promise<{ perSecond: number; p50Us: number }> {
  const sliceMs = context.pick({ full: 1500, quick: 200, smoke: 1 });
  const times = Math.max(2, Math.min(40, Math.round(sliceMs / (2 * tripMs))));
  const count = context.pick({ full: width * times, quick: width * times, smoke: 2 });
  const { ms, p50Us } = await side.call<Measured & { p50Us: number }>('slice', { count, width });
  return { perSecond: (count / ms) * 1000, p50Us };
}

async function handOff(context: Context, sides: readonly Hosted[], eachWayMs: number): Promise<number> {
  const sliceMs = context.pick({ full: 2500, quick: 1500, smoke: 60 });
  const until = nowUs() + sliceMs * 1000;
  const all = await Promise.all(
    sides.map((side, index) =>
      side.call<Turns>('contend', { resource: `far-${eachWayMs}`, clients: [index], until, holdMs: 2 }),
    ),
  );
  const turns = all.flatMap(turnsOf).sort((a, b) => a.begun - b.begun);
  const idle: number[] = [];
  for (const [index, turn] of turns.entries()) {
    const before = turns[index - 1];
    if (before === undefined || before.client === turn.client) continue;
    // Whoever asked just now may have been on the way to the queue; once there, it has been for less than a turn of the other.
    if (turn.asked + 1500 * eachWayMs < before.ended) idle.push(turn.begun - before.ended);
  }
  return percentile(sorted(idle), 0.5);
}

const isKept = ({ refused, lost }: Endurance): boolean => refused === 0 && lost === 0;

/** The shortest from which on none was lost. */
function shortestKept({ endured }: Distance): number {
  const lastBad = endured.findLastIndex((its) => !isKept(its));
  return endured[lastBad + 1]?.ttlMs ?? NaN;
}

const named = ({ eachWayMs }: Distance): string => `${eachWayMs} ms each way`;

function callsTable(distances: readonly Distance[]): Table {
  return {
    title: 'one at a time, in round trips',
    unit: 'PING, ms',
    better: 'less',
    isOnce: true,
    rows: distances.map((its) => {
      const { pingUs, acquireUs, releaseUs } = its.calls;
      return rowOnce(named(its), 'ours', pingUs / 1000, {
        'acquire ms': acquireUs / 1000,
        '÷ PING': acquireUs / pingUs,
        'release ms': releaseUs / 1000,
        'release ÷ PING': releaseUs / pingUs,
        'both ÷ PING': (acquireUs + releaseUs) / pingUs,
        'hand-off ms': its.handOffUs / 1000,
        'hand-off ÷ PING': its.handOffUs / pingUs,
      });
    }),
  };
}

function runsTable(distances: readonly Distance[]): Table {
  return {
    title: 'run(), so many at once on as many names',
    unit: 'runs/s, one at once',
    better: 'more',
    isOnce: true,
    rows: distances.map((its) =>
      rowOnce(
        named(its),
        'ours',
        its.runs[0]?.perSecond ?? NaN,
        Object.fromEntries(its.runs.slice(1).map(({ width, perSecond }) => [`${width} at once`, perSecond])),
      ),
    ),
  };
}

function extensionsTable(distances: readonly Distance[], leases: number, ttlMs: number): Table {
  return {
    title: `${leases.toLocaleString('en')} leases of ${ttlMs / 1000} s kept by one process, for one refresh interval`,
    unit: 'extensions',
    better: 'more',
    isOnce: true,
    rows: distances.map((its) => {
      const { extensions, commands, lateMs, leastTrust, lost, unanswered } = its.extended;
      const late = sorted([...lateMs]);
      return rowOnce(named(its), 'ours', extensions, {
        commands,
        'late p50 ms': percentile(late, 0.5),
        'worst ms': late.at(-1) ?? NaN,
        'least trust left %': leastTrust * 100,
        lost,
        unanswered,
      });
    }),
  };
}

/** Two calls must fit, and a call may take a third of what is left of the trust; see `timingOf`. */
export function leastTtlMs(roundTripMs: number): number {
  const [refreshRatio, driftRate, marginMs] = [3, 0.01, 20];
  return Math.max(100, (3 * roundTripMs + marginMs) / (1 - driftRate - 1 / refreshRatio));
}

function ttlTable(distances: readonly Distance[]): Table {
  return {
    title: 'how short a ttl can be',
    unit: 'ms of the shortest that was kept',
    better: 'less',
    isOnce: true,
    rows: distances.map((its) =>
      rowOnce(named(its), 'ours', shortestKept(its), {
        'least by arithmetic ms': leastTtlMs(its.calls.pingUs / 1000),
        'adviseTiming says ms': its.extended.shortestTtlMs,
        ...Object.fromEntries(
          its.endured.map(({ ttlMs, refused, lost }) => [`lost of 20, ${ttlMs} ms`, refused + lost]),
        ),
      }),
    ),
  };
}
