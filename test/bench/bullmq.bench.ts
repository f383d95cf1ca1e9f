import { Redis } from 'ioredis';

import type { Benchmark } from './benchmark.ts';
import { fitLibraries, hostAll, lockPackages, type HostedContestant } from './contestants.ts';
import { interleave, tableOf, type Contestant, type Figures } from './interleave.ts';
import { commandCalls, redisCpuUs } from './redis-figures.ts';
import { rowOf, target, type Table, type Target } from './report.ts';
import type { Measured } from './side.ts';
import type { BullmqSetup, JobsRound } from './variants/bullmq.ts';

const LEASED = 'Leasehold: LeasedWorker';
const LINGERING = "the same, linger: '200ms'";

interface Case extends Omit<JobsRound, 'count'> {
  readonly title: string;
  /** The target, of a plain worker's jobs. */
  readonly least: number;
}

const cases: readonly Case[] = [
  { title: 'concurrency 1, distinct keys', concurrency: 1, keys: 'distinct', least: 0.7 },
  { title: 'concurrency 10, distinct keys', concurrency: 10, keys: 'distinct', least: 0.72 },
  { title: 'concurrency 50, distinct keys', concurrency: 50, keys: 'distinct', least: 0.75 },
  { title: 'concurrency 1, jobs of one key', concurrency: 1, keys: 'one', least: 0.9 },
];

export const benchmark: Benchmark = {
  name: 'bullmq',
  title: 'BullMQ jobs under a lease',
  method:
    'Jobs that do nothing, all in the queue before the worker begins, so that what is measured is the worker and the lease and nothing else: with a job of some milliseconds no row differs. Each key is free when its job comes. The floor is a plain worker without any lock. By hand is `SET NX PX` and a compare-and-delete around the job: not extended, not fenced. Our two scripts, sent by hand around the job, are what the record costs, without an engine. The async hooks are what one `AsyncLocalStorage` does to a process up to Node 22, whoever uses it: ours holds the lease of the running body, tracing another. The others are the libraries’ `using`, or what they have instead, around the job.',
  packages: ['bullmq', ...lockPackages],
  async run(context) {
    const url = (await context.redis()).url;
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const libraries = fitLibraries(context).map(({ name }) => name);
    const setups: (Contestant & { setup: BullmqSetup })[] = [
      { name: 'plain worker', kind: 'floor', setup: { url, variant: 'plain' } },
      { name: LEASED, kind: 'ours', setup: { url, variant: 'leased' } },
      { name: LINGERING, kind: 'ours', setup: { url, variant: 'lingering' } },
      { name: 'plain worker, with async hooks', kind: 'other', setup: { url, variant: 'with async hooks' } },
      { name: 'our two scripts, sent by hand', kind: 'other', setup: { url, variant: 'bare scripts' } },
      { name: 'a lock by hand', kind: 'other', setup: { url, variant: 'by hand' } },
      ...libraries.map((name) => ({ name, kind: 'peer' as const, setup: { url, variant: name } })),
    ];
    const hosted = await hostAll(context, 'bullmq', setups);
    const rounds = context.pick({ full: 8, quick: 2, smoke: 1 });
    const count = context.pick({ full: 600, quick: 150, smoke: 4 });
    // Code is compiled for good after some thousands.
    const warm = context.pick({ full: 4, quick: 3, smoke: 0 });
    const tables: Table[] = [];
    const targets: Target[] = [];
    for (const { title, concurrency, keys, least } of context.pick({
      full: cases,
      quick: cases,
      smoke: cases.slice(1, 2),
    })) {
      const slice = async ({ hosted: its }: HostedContestant): Promise<Figures> => {
        const round: JobsRound = { count, concurrency, keys };
        await its.call('prepare', round);
        const [calls, redis] = [(await commandCalls(admin)).get('evalsha') ?? 0, await redisCpuUs(admin)];
        const { ms, cpuUs, failed } = await its.call<Measured & { failed: number }>('slice', round);
        if (failed > 0) throw new Error(`${failed} of ${count} jobs failed`);
        const redisUs = (await redisCpuUs(admin)) - redis;
        const scripts = ((await commandCalls(admin)).get('evalsha') ?? 0) - calls;
        await its.call('clear');
        return {
          perSecond: (count / ms) * 1000,
          cpuUs: cpuUs / count,
          redisUs: redisUs / count,
          scripts: scripts / count,
        };
      };
      const table = tableOf(await interleave(hosted, { rounds, warmUps: tables.length === 0 ? warm : 1 }, slice), {
        title,
        unit: 'jobs/s',
        better: 'more',
        figure: 'perSecond',
        more: { 'client CPU µs': 'cpuUs', 'Redis CPU µs': 'redisUs', 'EVALSHA for each': 'scripts' },
      });
      tables.push(table);
      targets.push(
        target(
          `${title}: jobs per second, of a plain worker’s`,
          'at least',
          least,
          rowOf(table, keys === 'one' ? LINGERING : LEASED)?.ratio?.median,
          '×',
        ),
      );
    }
    return { tables, targets };
  },
};
