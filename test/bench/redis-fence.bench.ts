import type { Benchmark } from './benchmark.ts';
import { hostAll, type HostedContestant } from './contestants.ts';
import { interleave, tableOf, type Contestant, type Figures } from './interleave.ts';
import { percentile, sorted } from './numbers.ts';
import type { Table } from './report.ts';
import type { FenceSetup, FenceSlice } from './variants/redis-fence.ts';

const ways = [
  { name: 'floor: MULTI … EXEC', kind: 'floor', variant: 'floor' },
  { name: 'Leasehold fence.write', kind: 'ours', variant: 'write' },
  { name: 'Leasehold fence.eval', kind: 'ours', variant: 'eval' },
] as const;

const cases: readonly Omit<FenceSlice, 'count'>[] = [
  { commands: 1, width: 1 },
  { commands: 5, width: 1 },
  { commands: 1, width: 50 },
  { commands: 5, width: 50 },
];

export const benchmark: Benchmark = {
  name: 'redis-fence',
  title: 'The Redis fence',
  method:
    'Commands on keys of nobody else, through the fence and in MULTI and EXEC over the same client. Median latency of a slice; `eval` is one script of the user’s that does one command.',
  packages: ['redis'],
  async run(context) {
    const url = (await context.redis()).url;
    const rounds = context.pick({ full: 12, quick: 2, smoke: 1 });
    const count = context.pick({ full: 1000, quick: 400, smoke: 4 });
    const tables: Table[] = [];
    // Code is compiled for good after some thousands.
    const warm = context.pick({ full: 4, quick: 4, smoke: 0 });
    for (const client of ['ioredis', 'node-redis'] as const) {
      const setups: (Contestant & { setup: FenceSetup })[] = ways.map(({ name, kind, variant }) => ({
        name,
        kind,
        setup: { url, client, variant },
      }));
      const hosted = await hostAll(context, 'redis-fence', setups);
      for (const { commands, width } of context.pick({ full: cases, quick: cases, smoke: cases.slice(0, 1) })) {
        const slice = async ({ hosted: its }: HostedContestant): Promise<Figures> => {
          const work: FenceSlice = { count, width, commands };
          const took = sorted(await its.call<number[]>('slice', work));
          return { p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
        };
        const fit = commands === 1 ? hosted : hosted.filter(({ name }) => name !== ways[2].name);
        tables.push(
          tableOf(await interleave(fit, { rounds, warmUps: width === 1 ? warm : 1 }, slice), {
            title: `${client}, ${commands === 1 ? 'one command' : `${commands} commands`}, ${width === 1 ? 'one at a time' : `${width} at once`}`,
            unit: 'µs',
            better: 'less',
            figure: 'p50',
            more: { 'p99 µs': 'p99' },
          }),
        );
      }
      for (const { hosted: its } of hosted) await its.close();
    }
    return { tables, targets: [] };
  },
};
