import type { SideName } from './benchmark.ts';
import type { OpenSide, Side } from './side.ts';

/** Loaded where it runs: a process has in it what it measures, and nothing else. */
const sides: Readonly<Record<SideName, () => Promise<{ readonly open: OpenSide }>>> = {
  bullmq: () => import('./variants/bullmq.ts'),
  'bullmq-keys': () => import('./variants/bullmq-keys.ts'),
  cron: () => import('./variants/cron.ts'),
  'hand-off': () => import('./variants/hand-off.ts'),
  heap: () => import('./variants/heap.ts'),
  held: () => import('./variants/held.ts'),
  locks: () => import('./variants/locks.ts'),
  'postgres-fence': () => import('./variants/postgres-fence.ts'),
  'redis-fence': () => import('./variants/redis-fence.ts'),
  'scale-distance': () => import('./variants/scale-distance.ts'),
  'scale-leases': () => import('./variants/scale-leases.ts'),
  'scale-names': () => import('./variants/scale-names.ts'),
  'scale-waiters': () => import('./variants/scale-waiters.ts'),
  takeover: () => import('./variants/takeover.ts'),
};

export async function openSide(name: SideName, setup: object): Promise<Side> {
  const { open } = await sides[name]();
  return open(setup as never);
}
