import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Benchmark } from './benchmark.ts';
import { serverFigures } from './redis-figures.ts';
import { rowOnce, target } from './report.ts';
import type { Wave } from './variants/scale-names.ts';

const text = (value: number): string => Math.round(value).toLocaleString('en');
const MB = 1e6;

interface Point {
  readonly names: number;
  readonly records: number;
  readonly memory: number;
  readonly heap: number;
  readonly atS: number;
  readonly perSecond: number;
}

export const benchmark: Benchmark = {
  name: 'scale-names',
  title: 'Names that are used once',
  method:
    'Each name is acquired and released once, a hundred at once, by one process with one manager; after each wave it is measured what Redis remembers and what the heap of the process has after garbage collection. The retention is short, so that what is remembered stops growing while names go on: in life it is `retention`, 7 days by default. At the end it is waited until Redis has forgotten all of them.',
  packages: [],
  async run(context) {
    const { url } = await context.redis();
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const all = context.pick({ full: 1_000_000, quick: 40_000, smoke: 20 });
    const waves = context.pick({ full: 10, quick: 4, smoke: 2 });
    const retentionMs = context.pick({ full: 20_000, quick: 2500, smoke: 100 });
    const side = await context.host('scale-names', { url, retentionMs }, { execArgv: ['--expose-gc'] });
    // Code is compiled, and room for it kept.
    await side.call('wave', { count: context.pick({ full: 10_000, quick: 2000, smoke: 1 }) });
    await admin.flushall();
    const empty = (await serverFigures(admin)).memory;
    const heapBefore = await side.call<number>('heap');
    const before = await serverFigures(admin);

    const points: Point[] = [];
    const fromMs = performance.now();
    let workMs = 0;
    let clientUs = 0;
    for (let wave = 1; wave <= waves; wave++) {
      const its = await side.call<Wave>('wave', { count: all / waves });
      const [records, { memory }] = [await admin.dbsize(), await serverFigures(admin)];
      workMs += its.ms;
      clientUs += its.cpuUs;
      points.push({
        ...{ names: (wave * all) / waves, records, memory: memory - empty, heap: its.heapBytes - heapBefore },
        atS: (performance.now() - fromMs) / 1000,
        perSecond: all / waves / (its.ms / 1000),
      });
    }
    const after = await serverFigures(admin);
    const endMs = performance.now();
    let records = await admin.dbsize();
    while (records > 0 && performance.now() - endMs < retentionMs * 2 + 30_000) {
      await sleep(Math.min(250, retentionMs / 10));
      records = await admin.dbsize();
    }
    const forgottenS = (performance.now() - endMs) / 1000;
    const left = (await serverFigures(admin)).memory - empty;
    const [first, last] = [points[0], points.at(-1)] as [Point, Point];
    const perName = Math.max(...points.map((point) => point.memory / point.records));
    const leak = (last.heap - first.heap) / (last.names - first.names);
    return {
      tables: [
        {
          title: `${text(all)} names, each remembered for ${retentionMs / 1000} s`,
          unit: 'records in Redis',
          better: 'less',
          isOnce: true,
          rows: [
            ...points.map((point) =>
              rowOnce(`${text(point.names)} names`, 'ours', point.records, {
                'Redis MB': point.memory / MB,
                'Redis bytes a record': point.memory / point.records,
                'heap KB above the start': point.heap / 1000,
                'pairs/s': point.perSecond,
                s: point.atS,
              }),
            ),
            rowOnce(`${forgottenS.toFixed(1)} s after the last`, 'ours', records, { 'Redis MB': left / MB }),
          ],
        },
      ],
      curves: [
        {
          title: 'What Redis remembers',
          x: 'names',
          y: 'records',
          lines: [
            { name: 'records', points: [[0, 0], ...points.map((each) => [each.names, each.records] as const)] },
            { name: 'names', points: [[0, 0], ...points.map((each) => [each.names, each.names] as const)] },
          ],
          bend: `Records grow with the names until the first are forgotten, after ${retentionMs / 1000} s, and stay near the names of the last ${retentionMs / 1000} s from then on. ${forgottenS.toFixed(1)} s after the last release ${records === 0 ? 'none was left' : `${text(records)} were left`}, and ${(left / MB).toFixed(1)} MB more than at the start.`,
        },
        {
          title: 'Heap of the process, above the start',
          x: 'names',
          y: 'KB',
          lines: [{ name: 'heap', points: points.map((each) => [each.names, each.heap / 1000] as const) }],
          bend: `From ${text(first.names)} to ${text(last.names)} names the heap changed by ${leak.toFixed(2)} bytes a name.`,
        },
      ],
      targets: [
        target('records left after the retention', 'at most', 0, records),
        // A quick look has too few of them to see less.
        target(
          'heap that a name leaves',
          'at most',
          context.pick({ full: 1, quick: 20, smoke: 100_000 }),
          leak,
          'bytes',
        ),
      ],
      constants: {
        names: all,
        retentionMs,
        memoryPerName: perName,
        redisUsPerPair: (after.cpuUs - before.cpuUs) / all,
        clientUsPerPair: clientUs / all,
        inBytesPerPair: (after.inBytes - before.inBytes) / all,
        outBytesPerPair: (after.outBytes - before.outBytes) / all,
        pairsPerSecond: all / (workMs / 1000),
        heapPerName: leak,
      },
    };
  },
};
