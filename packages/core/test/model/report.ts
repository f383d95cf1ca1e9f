import type { Finding } from './explore.ts';
import type { Bounds } from './world.ts';

export function describeBounds(bounds: Bounds): string {
  const { processes, leaseIds, crashes, ghosts, tries, handsOver, ttl, refresh } = bounds;
  const modes = ['waiting', ...(tries ? ['trying'] : []), ...(handsOver ? ['handing over'] : [])].join(', ');
  return `processes ${processes} (${modes}), leaseIds ${leaseIds}, crashes ${crashes}, late requests ${ghosts}, ttl ${ttl}, refresh ${refresh}`;
}

export function describeFinding({ states, transitions, probes, depth, complete, seconds, violation }: Finding): string {
  const counts =
    `${states} states, ${transitions} transitions, ${probes} fault-free endings, depth ${depth}, ` +
    `${seconds.toFixed(1)} s, ${complete ? 'exhaustive' : 'not exhausted'}`;
  if (violation === null) return counts;
  const steps = violation.trace.map((step, index) => `  ${String(index + 1).padStart(2)}. ${step}`);
  return [`${violation.property} fails after ${steps.length} steps (${counts}):`, ...steps].join('\n');
}
