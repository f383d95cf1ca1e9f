import type { Benchmark } from './benchmark.ts';
import { BARE, FLOOR, leastThatFences, measureLocks } from './acquire-release.bench.ts';
import { fitLibraries, hostAll, lockPackages } from './contestants.ts';
import type { Contestant } from './interleave.ts';
import { rowOf, target } from './report.ts';
import type { LocksSetup } from './variants/locks.ts';

export const benchmark: Benchmark = {
  name: 'run',
  title: 'run(), with everything',
  method:
    'The same with the call that people should make: `run(name, body)` with an empty body against `using` of the others, which also extends and tells of a loss. The floor is that of acquire and release, and so are the last rows.',
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const hasUsing = fitLibraries(context, ({ extendedBy }) => (extendedBy === 'using' ? null : 'it has no `using`'));
    const setups: (Contestant & { setup: LocksSetup })[] = [
      { name: FLOOR, kind: 'floor', setup: { url, way: 'floor' } },
      { name: 'Leasehold run', kind: 'ours', setup: { url, way: 'run' } },
      ...hasUsing.map(({ name }) => ({
        name: `${name} using`,
        kind: 'peer' as const,
        setup: { url, way: 'peer using' as const, library: name },
      })),
      { name: BARE, kind: 'other', setup: { url, way: 'bare scripts' } },
      ...leastThatFences(url),
    ];
    const [one, hundred] = await measureLocks(context, url, await hostAll(context, 'locks', setups));
    return {
      tables: [one, hundred],
      targets: [
        target(
          'one at a time: operations per second, of the floor’s',
          'at least',
          0.85,
          rowOf(one, 'Leasehold run')?.ratio?.median,
          '×',
        ),
      ],
    };
  },
};
