import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { partsOf, planOf, without as planWithout } from './plan.ts';

export const USAGE = `simulate [--seeds N] [--minutes M] [--from SEED] [--workers N]
simulate --seed SEED [--without PART[,PART]]   one of them, with all that happened`;

/** One seed, or many in a row. */
export type Asked =
  | { readonly seed: number; readonly without: readonly string[] }
  | { readonly from: number; readonly seeds: number; readonly minutes: number; readonly workers: number };

/** What of the command line is for many seeds. */
const FOR_MANY = ['seeds', 'minutes', 'from', 'workers'] as const;

/** Of the command line; null if it asks how it is used. Throws in words if it is wrong. */
export function argumentsOf(args: readonly string[]): Asked | null {
  const text = { type: 'string' } as const;
  const help = { type: 'boolean', short: 'h' } as const;
  const options = { seeds: text, minutes: text, from: text, workers: text, seed: text, without: text, help };
  const { values } = parseArgs({ args: [...args], options });
  if (values.help === true) return null;
  if (values.seed !== undefined) {
    const other = FOR_MANY.find((name) => values[name] !== undefined);
    if (other !== undefined) throw new Error(`--seed plays one seed: --${other} is for many`);
    const seed = wholeOf('seed', values.seed, 0);
    return { seed, without: partsWithout(seed, values.without) };
  }
  if (values.without !== undefined) throw new Error(`--without ${values.without}: of which --seed?`);
  const { from, seeds, minutes, workers } = values;
  return {
    from: from === undefined ? 0 : wholeOf('from', from, 0),
    seeds: seeds !== undefined ? wholeOf('seeds', seeds, 1) : minutes === undefined ? 10_000 : Infinity,
    minutes: minutes === undefined ? Infinity : minutesOf(minutes),
    workers: workers === undefined ? availableParallelism() : wholeOf('workers', workers, 1),
  };
}

function wholeOf(name: string, given: string, least: number): number {
  const number = Number(given);
  if (/^\d+$/.test(given) && Number.isSafeInteger(number) && number >= least) return number;
  throw new Error(`--${name} is ${given}: it must be a whole number from ${least}`);
}

function minutesOf(given: string): number {
  if (/^\d+(\.\d+)?$/.test(given) && Number(given) > 0) return Number(given);
  throw new Error(`--minutes is ${given}: it must be a number above 0`);
}

/** Of this seed: a part that it does not have would leave out nothing, and nobody would see it. */
function partsWithout(seed: number, given: string | undefined): readonly string[] {
  if (given === undefined) return [];
  const plan = planOf(seed);
  const known = partsOf(plan);
  const named = given.split(',');
  for (const part of named) {
    if (known.includes(part)) continue;
    throw new Error(`--without ${part}: seed ${seed} has no such part; it has ${known.join(', ')}`);
  }
  if (planWithout(plan, new Set(named)).processes.length > 0) return named;
  throw new Error(`--without ${given}: seed ${seed} has no process then`);
}
