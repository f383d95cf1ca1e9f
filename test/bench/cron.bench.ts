import type { Benchmark } from './benchmark.ts';
import { tableOf, type Figures } from './interleave.ts';
import { percentile, sorted } from './numbers.ts';
import type { Kind } from './report.ts';
import type { CronSetup, Ticks } from './variants/cron.ts';

const JOBS = 5;

const kindOf = (index: number): Kind => (['floor', 'ours', 'ours', 'peer'] as const)[index] ?? 'other';

export const benchmark: Benchmark = {
  name: 'cron',
  title: 'Cron ticks under a lease',
  method: `From the second that a schedule names to the first line of the task. The kinds have a second each in turn, in one process, with ${JOBS} tasks each; the three instances of a fleet are in that process too. Plain node-cron runs a task in each instance. The last one lets it ask a coordinator by \`SET NX\`: once a tick, but neither fenced nor extended.`,
  packages: ['node-cron'],
  async run(context) {
    const url = (await context.redis()).url;
    const setup: CronSetup = { url, jobs: context.pick({ full: JOBS, quick: JOBS, smoke: 1 }) };
    const side = await context.host('cron', setup);
    // The first ticks connect and load scripts.
    if (context.size !== 'smoke') await side.call('listen', { seconds: 5 });
    const rounds = context.pick({ full: 4, quick: 1, smoke: 1 });
    const series: { contestant: { name: string; kind: Kind }; slices: Figures[] }[] = [];
    for (let round = 0; round < rounds; round++) {
      const seconds = context.pick({ full: 12, quick: 8, smoke: 1 });
      for (const [index, { name, lateMs }] of (await side.call<Ticks[]>('listen', { seconds })).entries()) {
        const ascending = sorted(lateMs);
        const its = (series[index] ??= { contestant: { name, kind: kindOf(index) }, slices: [] });
        its.slices.push(
          lateMs.length === 0
            ? {}
            : { p50: percentile(ascending, 0.5), worst: ascending.at(-1) ?? NaN, ticks: lateMs.length },
        );
      }
    }
    return {
      tables: [
        tableOf(series, {
          title: 'how late a task begins, p50 of a round',
          unit: 'ms',
          better: 'less',
          figure: 'p50',
          more: { 'worst of a round ms': 'worst', 'runs in a round': 'ticks' },
        }),
      ],
      targets: [],
    };
  },
};
