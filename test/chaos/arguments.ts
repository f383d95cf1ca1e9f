import { parseArgs } from 'node:util';

import type { WorkloadName } from './nemesis.ts';
import { nemesesNamed, WORKLOADS } from './plan.ts';

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

/** Of the command line. Ends the process if they are wrong. */
export function readArguments(): Arguments {
  try {
    return argumentsOf();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}\n`);
    process.exit(2);
  }
}

function argumentsOf(): Arguments {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string', default: `${Date.now() % 2 ** 31}` },
      only: { type: 'string', default: '' },
      workload: { type: 'string', default: WORKLOADS.join(',') },
      pairs: { type: 'boolean', default: false },
      parallel: { type: 'string', default: '2' },
      seconds: { type: 'string', default: '8' },
      list: { type: 'boolean', default: false },
      report: { type: 'string' },
      episode: { type: 'string' },
      ttl: { type: 'string' },
    },
  });
  const only = commas(values.only);
  nemesesNamed(only);
  const workloads = commas(values.workload).map((name): WorkloadName => {
    const known = WORKLOADS.find((each) => each === name);
    if (known === undefined) throw new Error(`--workload is ${name}: it must be one of ${WORKLOADS.join(', ')}`);
    return known;
  });
  const { episode, ttl } = values;
  if (episode !== undefined && (ttl === undefined || workloads.length !== 1 || only.length === 0 || only.length > 2)) {
    throw new Error('--episode needs --ttl, one --workload and one or two names in --only, as they were printed');
  }
  return {
    seed: numberOf('seed', values.seed, 0),
    parallel: numberOf('parallel', values.parallel, 1),
    strikeMs: numberOf('seconds', values.seconds, 1) * 1000,
    forMs: values.minutes === undefined ? null : numberOf('minutes', values.minutes, 0) * 60_000,
    ...{ only, workloads, pairs: values.pairs, list: values.list, report: values.report },
    episode:
      episode === undefined
        ? undefined
        : { seed: numberOf('episode', episode, 0), ttlMs: numberOf('ttl', ttl ?? '', 100) },
  };
}

function numberOf(name: string, value: string, least: number): number {
  const number = Number(value);
  if (value !== '' && Number.isFinite(number) && number >= least) return number;
  throw new Error(`--${name} is ${value}: it must be a number from ${least}`);
}

function commas(text: string): readonly string[] {
  return text.split(',').filter((each) => each !== '');
}
