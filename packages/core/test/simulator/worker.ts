/** One process of `simulate`: runs the seeds that it is told, and ends when nobody tells it any more. */

import { addCounts, noCounts } from '../../src/testing/history/counts.ts';
import { addCoverage, coverageOf, noCoverage } from './coverage.ts';
import { planOf } from './plan.ts';
import { describeFailure, faultsOf, shortly } from './report.ts';
import { simulateSeed } from './run.ts';
import { shrink } from './shrink.ts';
import type { Failure, Outcome, Part } from './workers.ts';

async function simulateAll({ from, seeds }: Part): Promise<Outcome> {
  const counts = noCounts();
  const coverage = noCoverage();
  const failures: Failure[] = [];
  for (let seed = from; seed < from + seeds; seed++) {
    const run = await simulateSeed(seed);
    addCounts(counts, run.verdict.counts);
    addCoverage(coverage, coverageOf(run));
    if (faultsOf(run).length === 0) continue;
    const shrunk = await shrink(planOf(seed));
    failures.push({ whole: describeFailure(seed, shrunk), short: shortly(seed, shrunk) });
  }
  return { seeds, counts, coverage, failures };
}

process.on('message', (part: Part) => {
  void simulateAll(part).then((outcome) => process.send?.(outcome));
});
// Also in mid-work, when whoever asked is gone.
process.on('disconnect', () => process.exit());
