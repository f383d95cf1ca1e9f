import type { Finding } from './explore.ts';
import type { FenceBounds } from './fence-world.ts';
import type { Found } from './search.ts';
import type { Bounds } from './world.ts';

export function describeBounds(bounds: Bounds): string {
  const { processes, leaseIds, crashes, ghosts, tries, handsOver, forces, drops, ttl, refresh } = bounds;
  const { writes, diagnoses, revokes } = bounds;
  const more = [tries && 'trying', handsOver && 'handing over', forces && 'released by force'].filter(
    (each) => each !== false,
  );
  const modes = ['waiting', ...more].join(', ');
  const whole = writes === 0 ? '' : `, writes of each grant ${writes}, diagnoses ${diagnoses}, revocations ${revokes}`;
  const lost = drops ? '' : ', no call given up';
  return `processes ${processes} (${modes}), leaseIds ${leaseIds}, crashes ${crashes}, late requests ${ghosts}${lost}${whole}, ttl ${ttl}, refresh ${refresh}`;
}

export function describeFinding(finding: Finding): string {
  return describeFound(finding, `, ${figure(finding.probes)} fault-free endings`);
}

const figure = (count: number): string => count.toLocaleString('en');

/** What was visited, and step by step how what failed came to fail. */
export function describeFound(found: Found<string>, more = ''): string {
  const { states, transitions, depth, complete, seconds, violation } = found;
  const counts =
    `${figure(states)} states, ${figure(transitions)} transitions${more}, depth ${depth}, ` +
    `${seconds.toFixed(1)} s, ${complete ? 'exhaustive' : 'not exhausted'}`;
  if (violation === null) return counts;
  const steps = violation.trace.map((step, index) => `  ${String(index + 1).padStart(2)}. ${step}`);
  return [`${violation.property} fails after ${steps.length} steps (${counts}):`, ...steps].join('\n');
}

export function describeFenceBounds({ agents, acquisitions, tokens, versions, losses }: FenceBounds): string {
  const lost = losses === 0 ? '' : `, losses of the store's data ${losses}`;
  return `agents ${agents} (two of one process), acquisitions of each ${acquisitions}, tokens to ${tokens}, writes to ${versions}${lost}`;
}
