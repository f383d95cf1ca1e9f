import { Redis } from 'ioredis';
import type { Benchmark, Context } from './benchmark.ts';
import { fitLibraries, hostAll, type HostedContestant, lockPackages } from './contestants.ts';
import { interleave, tableOf, type Contestant, type Figures } from './interleave.ts';
import { redisCpuUs } from './redis-figures.ts';
import { rowOf, target, type Table } from './report.ts';
import type { Measured } from './side.ts';
import type { LocksSetup } from './variants/locks.ts';

export const FLOOR = 'floor: SET NX PX + EVALSHA';
export const BARE = 'our two scripts, sent by hand';

/** How far anything gets that fences, and anything that asks scripts, over the client and the server of the floor. */
export const leastThatFences = (url: string): readonly (Contestant & { setup: LocksSetup })[] => [
  { name: 'the least that fences: two keys', kind: 'other', setup: { url, way: 'least', least: 'two keys' } },
  { name: 'the least that fences: one string', kind: 'other', setup: { url, way: 'least', least: 'one string' } },
  { name: 'two scripts that do nothing', kind: 'other', setup: { url, way: 'least', least: 'empty scripts' } },
];

export const benchmark: Benchmark = {
  name: 'acquire-release',
  title: 'Acquire and release',
  method:
    'A lock is taken and given back, again and again, on names that are free: with one at a time, and with a hundred at once on as many names. The floor is `SET NX PX` and a compare-and-delete script over ioredis: no token, no extension, no loss that is told. Each library has a process and a connection of its own, with its defaults. Our two scripts, sent by hand over a plain client, are what the record costs: no engine can be faster than they are. The least that fences is the shortest script that takes a lock and draws a token in one step, and a compare-and-delete: with a counter beside the lock; and with deadline, token and owner in one string that outlives it. Two scripts that do nothing take the same arguments and answer 1.',
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const setups: (Contestant & { setup: LocksSetup })[] = [
      { name: FLOOR, kind: 'floor', setup: { url, way: 'floor' } },
      { name: 'Leasehold', kind: 'ours', setup: { url, way: 'acquire' } },
      ...fitLibraries(context).map(({ name }) => ({
        name,
        kind: 'peer' as const,
        setup: { url, way: 'peer' as const, library: name },
      })),
      { name: BARE, kind: 'other', setup: { url, way: 'bare scripts' } },
      ...leastThatFences(url),
      {
        name: 'the same floor, auto-pipelining',
        kind: 'other',
        setup: { url, way: 'floor, auto-pipelining' },
      },
    ];
    const [one, hundred] = await measureLocks(context, url, await hostAll(context, 'locks', setups));
    return {
      tables: [one, hundred],
      targets: [
        target(
          'one at a time: operations per second, of the floor’s',
          'at least',
          0.95,
          rowOf(one, 'Leasehold')?.ratio?.median,
          '×',
        ),
      ],
    };
  },
};

/** One at a time, and a hundred at once. */
export async function measureLocks(
  context: Context,
  url: string,
  hosted: readonly HostedContestant[],
): Promise<[Table, Table]> {
  const admin = new Redis(url);
  context.onEnd(async () => admin.disconnect());
  const rounds = context.pick({ full: 25, quick: 4, smoke: 1 });
  const count = context.pick({ full: 1000, quick: 500, smoke: 5 });
  const tables = [];
  for (const width of [1, 100]) {
    const slice = async ({ hosted: its }: HostedContestant): Promise<Figures> => {
      const before = await redisCpuUs(admin);
      const { ms, cpuUs, ...latencies } = await its.call<Measured & Figures>('slice', { count, width });
      const redisUs = (await redisCpuUs(admin)) - before;
      return { ...latencies, perSecond: (count / ms) * 1000, cpuUs: cpuUs / count, redisUs: redisUs / count };
    };
    // Code is compiled for good after some thousands.
    const warmUps = width === 1 ? context.pick({ full: 4, quick: 6, smoke: 0 }) : 2;
    const series = await interleave(hosted, { rounds, warmUps }, slice);
    tables.push(
      tableOf(series, {
        title: width === 1 ? 'one at a time' : 'a hundred at once, distinct names',
        unit: 'pairs/s',
        better: 'more',
        figure: 'perSecond',
        more: { 'p50 µs': 'p50Us', 'p99 µs': 'p99Us', 'client CPU µs': 'cpuUs', 'Redis CPU µs': 'redisUs' },
      }),
    );
  }
  return tables as [Table, Table];
}
