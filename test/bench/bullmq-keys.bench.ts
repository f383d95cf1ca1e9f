import { Queue } from 'bullmq';
import { setTimeout as sleep } from 'node:timers/promises';

import { connectionOf } from '../e2e/fixtures/bullmq-setup.ts';
import type { Benchmark, Context } from './benchmark.ts';
import type { Hosted } from './host.ts';
import { tableOf, type Figures, type Series } from './interleave.ts';
import { percentile, sorted, sum } from './numbers.ts';
import type { HotRound, Ran } from './variants/bullmq-keys.ts';

export const benchmark: Benchmark = {
  name: 'bullmq-keys',
  title: 'BullMQ jobs whose key is taken',
  method:
    'From the release of a key to the start of its next job. By a worker with nothing else to do, for whose job somebody else held the key; and when all jobs are of one key and two processes with five jobs at once each are at them, where a job that finds its key taken is given back and started again. No other library has this: with them a job waits inside its worker, or fails.',
  packages: ['bullmq'],
  async run(context) {
    const url = (await context.redis()).url;
    const sides = await Promise.all([0, 1].map(() => context.host('bullmq-keys', { url })));
    const [first] = sides as [Hosted, Hosted];
    const rounds = context.pick({ full: 3, quick: 1, smoke: 1 });
    const series: Series[] = [];
    const count = context.pick({ full: 60, quick: 20, smoke: 1 });
    const idle: Figures[] = [];
    for (let round = 0; round < rounds; round++)
      idle.push(figuresOf(await first.call<number[]>('handOffs', { queue: `hand-offs-${round}`, count })));
    series.push({ contestant: { name: 'an idle worker', kind: 'ours' }, slices: idle });
    for (const workMs of context.pick({ full: [5, 50], quick: [5, 50], smoke: [1] })) {
      const slices: Figures[] = [];
      for (let round = 0; round < rounds; round++)
        slices.push(await hotKey(context, url, sides, { queue: `hot-${workMs}-${round}`, workMs, concurrency: 5 }));
      series.push({ contestant: { name: `one hot key, jobs of ${workMs} ms`, kind: 'ours' }, slices });
    }
    return {
      tables: [
        tableOf(series, {
          title: 'from the release of a key to the start of its next job, p50 of a round',
          unit: 'ms',
          better: 'less',
          figure: 'p50',
          compare: false,
          more: { 'p90 ms': 'p90', 'p99 ms': 'p99', 'starts for each job': 'starts' },
        }),
      ],
      targets: [],
    };
  },
};

function figuresOf(times: readonly number[], starts = 2): Figures {
  const ascending = sorted(times);
  const at = (part: number): number => percentile(ascending, part);
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), starts };
}

async function hotKey(context: Context, url: string, sides: readonly Hosted[], round: HotRound): Promise<Figures> {
  const jobs = context.pick({ full: 100, quick: 40, smoke: 4 });
  for (const side of sides) await side.call('startHot', round);
  const queue = new Queue(round.queue, { connection: connectionOf(url) });
  await queue.addBulk(Array.from({ length: jobs }, (_, n) => ({ name: 'job', data: { key: 'hot', n } })));
  const ended = async (): Promise<number> => sum(await Promise.all(sides.map((side) => side.call<number>('howMany'))));
  while ((await ended()) < jobs) await sleep(20);
  const ran = (await Promise.all(sides.map((side) => side.call<readonly Ran[]>('endHot')))).flat();
  await queue.close();
  const turns = ran.toSorted((a, b) => a.startedMs - b.startedMs);
  const idle = turns.slice(1).map(({ startedMs }, index) => startedMs - (turns[index]?.endedMs ?? NaN));
  return figuresOf(idle, sum(turns.map(({ starts }) => starts)) / turns.length);
}
