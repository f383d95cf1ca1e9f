import { Redis } from 'ioredis';

import type { Benchmark } from './benchmark.ts';
import { fitLibraries, hostAll, type HostedContestant, lockPackages } from './contestants.ts';
import { interleave, tableOf, type Contestant, type Figures, type Series } from './interleave.ts';
import { redisCpuUs } from './redis-figures.ts';
import { rowOf, target, type Table } from './report.ts';
import type { Counted, HeldSetup, Kept } from './variants/held.ts';

const FLOOR = 'floor: one script for 500';

export const benchmark: Benchmark = {
  name: 'held-leases',
  title: 'Many leases held by one process',
  method:
    'So many leases are acquired, spread over a third of their time, and then only kept. What the process and Redis spend of their cores in a slice, for each extension; and how late the event loop of the process is. The floor is one owner-checked script for 500 keys, called as often as it takes to extend each of them in each third of its time. The others are told to extend in each third too, and hold fewer: what they spend is then for each lease and second. The first slice of each is not counted.',
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const many = context.pick({ full: 10_000, quick: 10_000, smoke: 40 });
    const some = context.pick({ full: 1000, quick: 500, smoke: 10 });
    const ttlMs = context.pick({ full: 6000, quick: 3000, smoke: 30_000 });
    const roundMs = context.pick({ full: ttlMs / 3, quick: ttlMs / 3, smoke: 10 });
    // The first ten thousand extensions of a process cost several times as much as the others: code is not compiled yet.
    const warmUps = context.pick({ full: 1, quick: 0, smoke: 0 });
    const own = (count: number): (Contestant & { setup: HeldSetup })[] => [
      { name: FLOOR, kind: 'floor', setup: { url, count, ttlMs, roundMs, variant: 'floor' } },
      { name: 'Leasehold', kind: 'ours', setup: { url, count, ttlMs, roundMs, variant: 'leasehold' } },
    ];
    const libraries = fitLibraries(context, ({ extendedBy }) =>
      extendedBy === 'nobody' ? 'it extends nothing by itself' : null,
    );
    const peers = libraries.map(({ name }) => ({
      name,
      kind: 'peer' as const,
      setup: { url, count: some, ttlMs, roundMs, variant: name },
    }));

    const manySeries = await measure(admin, await hostAll(context, 'held', own(many)), many, {
      rounds: context.pick({ full: 6, quick: 1, smoke: 1 }),
      warmUps,
      ms: context.pick({ full: 6000, quick: 3000, smoke: 50 }),
    });
    const someSeries = await measure(admin, await hostAll(context, 'held', [...own(some), ...peers]), some, {
      rounds: context.pick({ full: 3, quick: 1, smoke: 1 }),
      warmUps,
      ms: context.pick({ full: 3000, quick: 1500, smoke: 50 }),
    });
    const title = `${many.toLocaleString('en')} leases of ${ttlMs / 1000} s`;
    const client = table(manySeries, `${title}: client CPU for an extension`, 'clientUs', 'µs');
    const redis = table(manySeries, `${title}: Redis CPU for an extension`, 'redisUs', 'µs');
    const delay = tableOf(manySeries, {
      title: `${title}: delay of the event loop, p99`,
      unit: 'ms',
      better: 'less',
      figure: 'delayP99Ms',
    });
    const fewer = `${some.toLocaleString('en')} leases of ${ttlMs / 1000} s`;
    return {
      tables: [
        client,
        redis,
        delay,
        table(someSeries, `${fewer}: client CPU for a lease and second`, 'clientPerLeaseUs', 'µs/s', {
          'Redis CPU µs/s': 'redisPerLeaseUs',
          'loop delay p99 ms': 'delayP99Ms',
        }),
      ],
      targets: [
        target('client CPU, of the floor’s', 'at most', 1.5, rowOf(client, 'Leasehold')?.ratio?.median, '×'),
        target('Redis CPU, of the floor’s', 'at most', 1.5, rowOf(redis, 'Leasehold')?.ratio?.median, '×'),
        target('delay of the event loop, p99', 'at most', 20, rowOf(delay, 'Leasehold')?.value.median, 'ms'),
      ],
    };
  },
};

function table(series: readonly Series[], title: string, figure: string, unit: string, more = {}): Table {
  return tableOf(series, { title, unit, better: 'less', figure, more });
}

async function measure(
  admin: Redis,
  hosted: readonly HostedContestant[],
  count: number,
  { rounds, warmUps, ms }: { readonly rounds: number; readonly warmUps: number; readonly ms: number },
): Promise<readonly Series[]> {
  const slice = async ({ hosted: its }: HostedContestant): Promise<Figures> => {
    await its.call('hold');
    // To count is work for Redis too, so it is done before and after.
    const first = await its.call<Counted>('count');
    const before = await redisCpuUs(admin);
    const kept = await its.call<Kept>('keep', { ms });
    const redisUs = (await redisCpuUs(admin)) - before;
    const extensions = within(first, await its.call<Counted>('count'), kept.ms);
    await its.call('drop');
    const leaseSeconds = (kept.ms / 1000) * count;
    return {
      ...(extensions !== null && { clientUs: kept.cpuUs / extensions, redisUs: redisUs / extensions }),
      clientPerLeaseUs: kept.cpuUs / leaseSeconds,
      redisPerLeaseUs: redisUs / leaseSeconds,
      delayP99Ms: kept.delayP99Ms,
    };
  };
  return interleave(hosted, { rounds, warmUps }, slice);
}

/** How many in a part of the time between two counts. */
function within(first: Counted, last: Counted, ms: number): number | null {
  if (first.extensions === null || last.extensions === null) return null;
  return ((last.extensions - first.extensions) * ms * 1000) / (last.atUs - first.atUs);
}
