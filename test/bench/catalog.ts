import type { Benchmark } from './benchmark.ts';

/** In the order of the page. */
const all: readonly (readonly [name: string, load: () => Promise<{ readonly benchmark: Benchmark }>])[] = [
  ['acquire-release', () => import('./acquire-release.bench.ts')],
  ['run', () => import('./run.bench.ts')],
  ['hand-off', () => import('./hand-off.bench.ts')],
  ['held-leases', () => import('./held-leases.bench.ts')],
  ['heap', () => import('./heap.bench.ts')],
  ['takeover', () => import('./takeover.bench.ts')],
  ['bullmq', () => import('./bullmq.bench.ts')],
  ['bullmq-keys', () => import('./bullmq-keys.bench.ts')],
  ['postgres-fence', () => import('./postgres-fence.bench.ts')],
  ['redis-fence', () => import('./redis-fence.bench.ts')],
  ['cron', () => import('./cron.bench.ts')],
  ['start-up', () => import('./start-up.bench.ts')],
];

export const names: readonly string[] = all.map(([name]) => name);

/** Exactly those that are named; all if none is. */
export async function benchmarksNamed(wanted: readonly string[]): Promise<readonly Benchmark[]> {
  const unknown = wanted.filter((name) => !names.includes(name));
  if (unknown.length > 0)
    throw new Error(`no benchmark is called ${unknown.join(', ')}; there are ${names.join(', ')}`);
  const chosen = all.filter(([name]) => wanted.length === 0 || wanted.includes(name));
  return Promise.all(chosen.map(async ([, load]) => (await load()).benchmark));
}
