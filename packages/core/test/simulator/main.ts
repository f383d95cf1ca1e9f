/**
 * The simulation as a command: `simulate --seeds 100000 --minutes 60`, in as many processes as there are cores, or `--seed 7` for one of them, with all that
 * happened. Exits with 1 if a rule is broken or nothing was exercised.
 */

import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { addCounts, noCounts, type Counts } from '../../src/testing/history/counts.ts';
import { checkCounts } from '../../src/testing/history/validity.ts';
import { addCoverage, describeCoverage, gapsIn, noCoverage } from './coverage.ts';
import { planOf, without } from './plan.ts';
import { describeCounts, describeFailure, describeHistory, describePlan, faultsOf } from './report.ts';
import { simulate } from './run.ts';
import { inWorkers, type Part } from './workers.ts';

const USAGE = 'simulate [--seeds N] [--minutes M] [--from SEED] [--workers N] | --seed SEED [--without PARTS]';

/** After so many the rest is likely the same. */
const MOST_FAILURES = 5;
const SAY_EVERY_MS = 10_000;
/** So many seeds meet everything. */
const ENOUGH = 5000;
/** So many seeds at a time for a worker. */
const PART = 20;

function wrong(what: string): never {
  process.stderr.write(`${what}\n${USAGE}\n`);
  process.exit(2);
}

function numberOf(name: string, given: string | undefined, byDefault: number): number {
  if (given === undefined) return byDefault;
  const isRight = (name === 'minutes' ? /^\d+(\.\d+)?$/ : /^\d+$/).test(given);
  if (!isRight) wrong(`--${name} is ${given}, not a ${name === 'minutes' ? '' : 'whole '}number`);
  return Number(given);
}

async function one(seed: number, parts: readonly string[]): Promise<boolean> {
  const plan = without(planOf(seed), new Set(parts));
  const run = await simulate(plan);
  if (faultsOf(run).length > 0) {
    console.log(describeFailure(seed, { run, removed: parts, tries: 1 }));
    return false;
  }
  console.log([...describePlan(plan), ...describeHistory(run.history)].join('\n'));
  for (const { invariant, why } of run.verdict.waived) console.log(`${invariant} is not asked for: ${why}`);
  for (const { why } of checkCounts(run.verdict.counts)) console.log(`of itself it proves little: ${why}`);
  console.log(`seed ${seed} breaks no rule`);
  return true;
}

async function many(from: number, seeds: number, minutes: number, workers: number): Promise<boolean> {
  const sum: Counts = noCounts();
  const coverage = noCoverage();
  const startedMs = performance.now();
  let saidMs = startedMs;
  let failures = 0;
  let done = 0;
  let asked = 0;
  const say = (): void => {
    const seconds = (performance.now() - startedMs) / 1000;
    const figures = [done, seconds, done / seconds].map((figure) => Math.round(figure).toLocaleString('en'));
    console.log(`${figures[0]} seeds, ${failures} failed, ${figures[1]} s, ${figures[2]} a second`);
  };
  const next = (): Part | undefined => {
    const isOver = performance.now() - startedMs >= minutes * 60_000 || failures >= MOST_FAILURES;
    const part = { from: from + asked, seeds: Math.min(PART, seeds - asked) };
    if (isOver || part.seeds <= 0) return undefined;
    asked += part.seeds;
    return part;
  };
  await inWorkers(workers, next, (outcome) => {
    done += outcome.seeds;
    failures += outcome.failures.length;
    addCounts(sum, outcome.counts);
    addCoverage(coverage, outcome.coverage);
    for (const failure of outcome.failures) console.log(`\n${failure}\n`);
    if (performance.now() - saidMs <= SAY_EVERY_MS) return;
    saidMs = performance.now();
    say();
  });
  say();
  console.log(`for 1,000 seeds: ${describeCounts(sum, done)}`);
  for (const line of describeCoverage(coverage)) console.log(line);
  const gaps = checkCounts(sum);
  for (const { message } of gaps) console.log(message);
  // A kind of fault that never had an effect, or a moment that was never met, in so many runs proves nothing either.
  const unmet = done < ENOUGH ? [] : gapsIn(coverage, 1);
  for (const each of unmet) console.log(`V1 ${each}`);
  return failures === 0 && gaps.length === 0 && unmet.length === 0;
}

function argumentsOf() {
  const text = { type: 'string' } as const;
  try {
    const options = { seeds: text, minutes: text, from: text, workers: text, seed: text, without: text };
    return parseArgs({ options }).values;
  } catch (error) {
    return wrong(String(error));
  }
}

const values = argumentsOf();
const parts = values.without === undefined ? [] : values.without.split(',');
const isRight =
  values.seed === undefined
    ? await many(
        numberOf('from', values.from, 0),
        numberOf('seeds', values.seeds, values.minutes === undefined ? 10_000 : Infinity),
        numberOf('minutes', values.minutes, Infinity),
        Math.max(1, numberOf('workers', values.workers, availableParallelism())),
      )
    : await one(numberOf('seed', values.seed, 0), parts);
process.exitCode = isRight ? 0 : 1;
