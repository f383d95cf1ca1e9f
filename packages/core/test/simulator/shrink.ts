import type { Bug } from './bug.ts';
import { partsOf, without, type Plan } from './plan.ts';
import { faultsOf } from './report.ts';
import { simulate, type Run } from './run.ts';

/** A run that fails, and what was left out of its seed's plan. */
export interface Shrunk {
  readonly run: Run;
  readonly removed: readonly string[];
  /** How many runs it took. */
  readonly tries: number;
}

/** More are not worth the wait: most plans are small by then. */
const MOST_TRIES = 400;

/**
 * Leaves out every process, fault and step without which the run still fails in the same way. What one process draws does
 * not depend on the others, so what is left goes on as before.
 */
export async function shrink(plan: Plan, bug?: Bug): Promise<Shrunk> {
  let run = await simulate(plan, bug);
  const wanted = faultsOf(run)[0];
  const removed: string[] = [];
  let tries = 1;
  let isSmaller = wanted !== undefined;
  while (isSmaller) {
    isSmaller = false;
    for (const part of partsOf(run.plan)) {
      if (tries >= MOST_TRIES) break;
      // Gone with its process.
      if (!partsOf(run.plan).includes(part)) continue;
      const smaller = without(run.plan, new Set([part]));
      if (smaller.processes.length === 0) continue;
      tries++;
      const next = await simulate(smaller, bug);
      if (!faultsOf(next).includes(wanted as string)) continue;
      run = next;
      removed.push(part);
      isSmaller = true;
    }
  }
  return { run, removed, tries };
}
