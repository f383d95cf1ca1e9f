import type { Benchmark } from './benchmark.ts';
import { fitLibraries, hostAll, type HostedContestant, lockPackages } from './contestants.ts';
import { interleave, tableOf, type Contestant } from './interleave.ts';
import { rowOf, target } from './report.ts';
import type { HeapSetup } from './variants/heap.ts';

export const benchmark: Benchmark = {
  name: 'heap',
  title: 'Memory of a held lease',
  method:
    'Heap of the process after so many were acquired, less what it was before, both after garbage collection. What its user has to keep to release it is among it. What the others hold is held in the way that extends, by `using` where only that does; redlock 4 extends nothing by itself.',
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const count = context.pick({ full: 10_000, quick: 5000, smoke: 20 });
    const setups: (Contestant & { setup: HeapSetup })[] = [
      { name: 'floor: a key and its value', kind: 'floor', setup: { url, count, variant: 'floor' } },
      { name: 'Leasehold acquire', kind: 'ours', setup: { url, count, variant: 'acquire' } },
      { name: 'Leasehold run', kind: 'ours', setup: { url, count, variant: 'run' } },
      ...fitLibraries(context).map(({ name }) => ({
        name,
        kind: 'peer' as const,
        setup: { url, count, variant: name },
      })),
    ];
    const hosted = await hostAll(context, 'heap', setups, { execArgv: ['--expose-gc'] });
    const series = await interleave(
      hosted,
      // The first round also pays for code that is compiled and for room that is kept.
      { rounds: context.pick({ full: 3, quick: 1, smoke: 1 }), warmUps: context.pick({ full: 1, quick: 1, smoke: 0 }) },
      async ({ hosted: its }: HostedContestant) => ({ bytes: await its.call<number>('hold') }),
    );
    const table = tableOf(series, {
      title: `${count.toLocaleString('en')} held at once`,
      unit: 'bytes',
      better: 'less',
      figure: 'bytes',
    });
    return {
      tables: [table],
      targets: [
        target(
          'heap of a lease from acquire',
          'at most',
          600,
          rowOf(table, 'Leasehold acquire')?.value.median,
          'bytes',
        ),
      ],
    };
  },
};
