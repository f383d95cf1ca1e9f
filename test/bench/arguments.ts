// Imports nothing of the packages: they are read before anything is built.
import { parseArgs } from 'node:util';

import { readOrExit } from '../../scripts/lib/arguments.mjs';
import { names, unknownNames } from './catalog.ts';

const USAGE = `bench [NAME …] [--quick [--keep]]
bench --page   only writes docs/performance.md and what is beside it, from what was kept

NAME     one of ${names.join(', ')};
         or scale, for the four that begin with it. None: all, one after the other, half an hour
--quick  few rounds, and not every table: seconds to a minute each, and not on the page
--keep   keeps what a quick run measured, as a full one does`;

export interface Arguments {
  /** Empty: all. */
  readonly names: readonly string[];
  readonly size: 'quick' | 'full';
  readonly isKept: boolean;
  readonly page: boolean;
}

/** Null if they ask how it is used. Throws in words if they are wrong. */
export function argumentsOf(args: readonly string[]): Arguments | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) return null;
  const { quick, keep, page } = values;
  const why = unknownNames(positionals);
  if (why !== undefined) throw new Error(why);
  if (page && (quick || keep || positionals.length > 0)) throw new Error('--page measures nothing: it stands alone');
  return { names: positionals, size: quick ? 'quick' : 'full', isKept: keep || !quick, page };
}

/** Of the command line. Ends the process if they are wrong, or ask how it is used. */
export function readArguments(args: readonly string[]): Arguments {
  return readOrExit(() => argumentsOf(args), USAGE);
}
