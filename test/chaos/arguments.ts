import { parseArgs } from 'node:util';

import { readOrExit } from '../../scripts/lib/arguments.mjs';
import type { WorkloadName } from './nemesis.ts';
import { nemesesNamed, STRIKE_S, WORKLOADS } from './plan.ts';

const USAGE = `chaos [--minutes M] [--pairs] [--only NAME,…] [--workload core,cron,bullmq] [--seed S] [--parallel N] [--seconds S] [--report FILE]
chaos --episode SEED --ttl MS --workload NAME --only NAME[,NAME]   one episode again
chaos --list`;

export interface Arguments {
  readonly seed: number;
  readonly parallel: number;
  /** How long the faults of an episode are brought about. Milliseconds. */
  readonly strikeMs: number;
  /** Null: one round. Milliseconds. */
  readonly forMs: number | null;
  readonly only: readonly string[];
  readonly workloads: readonly WorkloadName[];
  readonly pairs: boolean;
  readonly list: boolean;
  readonly report: string | undefined;
  /** That was played before, by its seed. */
  readonly episode: { readonly seed: number; readonly ttlMs: number } | undefined;
}

/** Of the command line. Ends the process if they are wrong, or ask how it is used. */
export function readArguments(): Arguments {
  return readOrExit(() => argumentsOf(process.argv.slice(2)), USAGE);
}

/** What an episode that is played again does not leave open. */
const FOR_ROUNDS = ['minutes', 'seed', 'pairs', 'parallel'] as const;

/** Null if they ask how it is used. Throws in words if they are wrong. */
export function argumentsOf(args: readonly string[]): Arguments | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string' },
      only: { type: 'string' },
      workload: { type: 'string' },
      pairs: { type: 'boolean' },
      parallel: { type: 'string' },
      seconds: { type: 'string', default: `${STRIKE_S}` },
      list: { type: 'boolean', default: false },
      report: { type: 'string' },
      episode: { type: 'string' },
      ttl: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) return null;
  const only = namesOf('only', values.only, []);
  nemesesNamed(only);
  const workloads = namesOf('workload', values.workload, WORKLOADS).map((name): WorkloadName => {
    const known = WORKLOADS.find((each) => each === name);
    if (known === undefined) throw new Error(`--workload ${name}: it must be one of ${WORKLOADS.join(', ')}`);
    return known;
  });
  const { episode, ttl, minutes, seed, parallel } = values;
  if (episode === undefined && ttl !== undefined) throw new Error(`--ttl ${ttl}: it belongs to --episode`);
  if (episode !== undefined && (ttl === undefined || workloads.length !== 1 || only.length === 0 || only.length > 2)) {
    throw new Error('--episode needs --ttl, one --workload and one or two names in --only, as they were printed');
  }
  const other = episode === undefined ? undefined : FOR_ROUNDS.find((name) => values[name] !== undefined);
  if (other !== undefined) throw new Error(`--episode plays one episode: --${other} is for many`);
  return {
    seed: seed === undefined ? Date.now() % 2 ** 31 : wholeOf('seed', seed, 0),
    parallel: parallel === undefined ? 2 : wholeOf('parallel', parallel, 1),
    strikeMs: numberOf('seconds', values.seconds, (number) => number >= 1, 'from 1') * 1000,
    forMs: minutes === undefined ? null : numberOf('minutes', minutes, (number) => number > 0, 'above 0') * 60_000,
    ...{ only, workloads, pairs: values.pairs ?? false, list: values.list, report: values.report },
    episode:
      episode === undefined
        ? undefined
        : { seed: wholeOf('episode', episode, 0), ttlMs: wholeOf('ttl', ttl ?? '', 100) },
  };
}

function wholeOf(name: string, value: string, least: number): number {
  if (/^\d+$/.test(value) && Number.isSafeInteger(Number(value)) && Number(value) >= least) return Number(value);
  throw new Error(`--${name} is ${value}: it must be a whole number from ${least}`);
}

function numberOf(name: string, value: string, isRight: (number: number) => boolean, rule: string): number {
  if (/^\d+(\.\d+)?$/.test(value) && isRight(Number(value))) return Number(value);
  throw new Error(`--${name} is ${value}: it must be a number ${rule}`);
}

/** Divided by commas. */
function namesOf(option: string, text: string | undefined, byDefault: readonly string[]): readonly string[] {
  if (text === undefined) return byDefault;
  const names = text.split(',').filter((each) => each !== '');
  if (names.length === 0) throw new Error(`--${option} names nothing`);
  return names;
}
