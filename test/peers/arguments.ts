import { parseArgs } from 'node:util';

import { catalog } from './catalog.ts';

export const USAGE = 'peers [--peer NAME …] [--proof NAME …] [--lease MS] [--repeat N] [--parallel N]';

export interface Arguments {
  /** Undefined: all. */
  readonly peers: readonly string[] | undefined;
  readonly proofs: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly repeat: number;
  readonly parallel: number;
}

/** Null if they ask how it is used. Throws in words if they are wrong. `proofNames` are those that there are. */
export function argumentsOf(args: readonly string[], proofNames: readonly string[]): Arguments | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      peer: { type: 'string', multiple: true },
      proof: { type: 'string', multiple: true },
      lease: { type: 'string', default: '3000' },
      repeat: { type: 'string', default: '1' },
      parallel: { type: 'string', default: '2' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) return null;
  return {
    peers: namesOf('peer', values.peer, [...catalog.keys()]),
    proofs: namesOf('proof', values.proof, proofNames),
    leaseMs: wholeOf('lease', values.lease, 1500),
    repeat: wholeOf('repeat', values.repeat, 1),
    parallel: wholeOf('parallel', values.parallel, 1),
  };
}

function namesOf(
  option: string,
  given: readonly string[] | undefined,
  known: readonly string[],
): readonly string[] | undefined {
  const unknown = given?.find((name) => !known.includes(name));
  if (unknown === undefined) return given;
  throw new Error(`--${option} ${unknown}: there is no such ${option}; there are ${known.join(', ')}`);
}

function wholeOf(option: string, value: string, least: number): number {
  if (/^\d+$/.test(value) && Number.isSafeInteger(Number(value)) && Number(value) >= least) return Number(value);
  throw new Error(`--${option} is ${value}: it must be a whole number from ${least}`);
}
