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
  ['scale-leases', () => import('./scale-leases.bench.ts')],
  ['scale-names', () => import('./scale-names.bench.ts')],
  ['scale-waiters', () => import('./scale-waiters.bench.ts')],
  ['scale-distance', () => import('./scale-distance.bench.ts')],
];

export const names: readonly string[] = all.map(([name]) => name);

/** Whether it is on the page about size; the others are on that about speed. */
export const isScale = (name: string): boolean => name.startsWith('scale-');

const means = (word: string, name: string): boolean => word === name || (word === 'scale' && isScale(name));

/** Says which of them is no benchmark, if one is not. */
export function unknownNames(wanted: readonly string[]): string | undefined {
  const unknown = wanted.filter((word) => !names.some((name) => means(word, name)));
  if (unknown.length === 0) return undefined;
  return `no benchmark is called ${unknown.join(', ')}; there are ${names.join(', ')}, and scale for four`;
}

/** Those that are named, `scale` being all that begin with it; all if none is. */
export async function benchmarksNamed(wanted: readonly string[]): Promise<readonly Benchmark[]> {
  const why = unknownNames(wanted);
  if (why !== undefined) throw new Error(why);
  const chosen = all.filter(([name]) => wanted.length === 0 || wanted.some((word) => means(word, name)));
  return Promise.all(chosen.map(async ([, load]) => (await load()).benchmark));
}
