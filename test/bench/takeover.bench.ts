import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';

import type { Benchmark } from './benchmark.ts';
import { fitLibraries, lockPackages } from './contestants.ts';
import { tableOf, type Contestant, type Figures } from './interleave.ts';
import { rowOf, target } from './report.ts';
import { nowUs } from './side.ts';
import { keyOf, type TakeoverSetup } from './variants/takeover.ts';

interface Variant extends Contestant {
  readonly variant: string;
}

export const benchmark: Benchmark = {
  name: 'takeover',
  title: 'Takeover from an owner that was killed',
  method:
    'An owner holds some resources, and another process waits for each of them. The owner is killed with SIGKILL, the store is asked how long each lease still lasts, and what counts is the time from then to the moment when the waiter has it. All libraries do this in the same seconds, with their own defaults of polling. The floor asks for the time to live, sleeps for so long, and then tries each millisecond.',
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const admin = new Redis(url);
    const reader = new LeaseManager({ store: redisStore(url) });
    context.onEnd(async () => {
      admin.disconnect();
      await reader.close();
    });
    const ttlMs = context.pick({ full: 2000, quick: 2000, smoke: 1000 });
    const each = context.pick({ full: 6, quick: 4, smoke: 1 });
    const libraries = fitLibraries(context).map(({ name }) => name);
    const variants: Variant[] = [
      { name: 'floor: sleeps for what PTTL says', kind: 'floor', variant: 'floor' },
      { name: 'Leasehold', kind: 'ours', variant: 'leasehold' },
      // A process for each is too much for a moment.
      ...context
        .pick({ full: libraries, quick: libraries, smoke: [] })
        .map((name) => ({ name, kind: 'peer' as const, variant: name })),
    ];
    const series = variants.map((contestant) => ({ contestant, slices: [] as Figures[] }));
    const rounds = context.pick({ full: 8, quick: 2, smoke: 1 });
    for (let round = 0; round < rounds; round++) {
      const resources = Array.from({ length: each }, (_, index) => `takeover-${round}-${index}`);
      const both = await Promise.all(
        variants.map(async ({ variant }) => {
          const setup: TakeoverSetup = { url, ttlMs, variant };
          const holder = await context.host('takeover', setup, { alone: true });
          return { variant, holder, waiter: await context.host('takeover', setup) };
        }),
      );
      await Promise.all(
        both.map(async ({ variant, holder, waiter }, index) => {
          const own = resources.map((resource) => `${variant}-${resource}`);
          await holder.call('hold', { resources: own, apartMs: ttlMs / 60 + index });
          const taking = waiter.call<number[]>('take', { resources: own });
          await holder.kill9();
          const ends = await Promise.all(own.map((resource) => endUs(variant, resource)));
          for (const [place, takenUs] of (await taking).entries())
            series[index]?.slices.push({ ms: (takenUs - (ends[place] ?? NaN)) / 1000 });
          await waiter.close();
        }),
      );
    }
    const table = tableOf(series, {
      title: `leases of ${ttlMs / 1000} s: from the end of the lease to the next owner`,
      unit: 'ms',
      better: 'less',
      figure: 'ms',
      compare: false,
    });
    return {
      tables: [table],
      targets: [
        target('median after the end of the lease', 'at most', 20, rowOf(table, 'Leasehold')?.value.median, 'ms'),
      ],
    };

    async function endUs(variant: string, resource: string): Promise<number> {
      const key = keyOf(variant, resource);
      const from = nowUs();
      const leftMs = key === null ? ((await reader.inspect(resource))?.remainingMs ?? NaN) : await admin.pttl(key);
      return (from + nowUs()) / 2 + leftMs * 1000;
    }
  },
};
