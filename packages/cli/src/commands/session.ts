import { existsSync } from 'node:fs';
import type { LeaseManager, LeaseManagerOptions, Logger } from '@leasehold/core';
import type { Command } from 'commander';
import { describeTarget, findTarget, openManager, type Target } from '../connection.ts';
import { CONFIG_FILES } from '../config/file-names.ts';
import type { Io } from '../output/io.ts';
import { Output } from '../output/output.ts';
import { withoutRepeats } from '../run/repeats.ts';
import type { CommonFlags } from './flags.ts';

/** What all commands of one run of the program share. */
export interface Session {
  readonly io: Io;
  /** Set by the first command that has chosen its store, for messages about it. */
  address?: string | undefined;
  /** What may help if that store cannot be reached; a command line. */
  hint?: string | undefined;
  /** Set by a command whose end is neither a success nor an error. */
  exit: number;
}

export function outputOf(session: Session, command: Command): Output {
  return new Output(session.io, command.optsWithGlobals<CommonFlags>());
}

export interface Connected {
  readonly leases: LeaseManager;
  readonly target: Target;
  readonly output: Output;
}

/** Says whom it talks to, gives the manager to `body`, and closes it whatever happens. */
export async function withLeases(
  session: Session,
  command: Command,
  body: (connected: Connected) => Promise<void>,
  options: Omit<LeaseManagerOptions, 'store'> = {},
): Promise<void> {
  const output = outputOf(session, command);
  const target = await findTarget(command.optsWithGlobals<CommonFlags>(), session.io.env, async (path) => {
    const { storeOfConfig } = await import('./config-file.ts');
    return storeOfConfig(path, session.io.env);
  });
  session.address = target.address;
  // A file that is here and was not named: perhaps the store that is meant is in it.
  const file = target.origin === 'default' ? CONFIG_FILES.find((name) => existsSync(name)) : undefined;
  if (file !== undefined) session.hint = `leasehold ${command.name()} … --config ${file}`;
  output.note(describeTarget(target), 'quiet');
  if (file !== undefined) output.note(`${file} is in this folder and was not asked: --config ${file}`, 'warning');
  const leases = await openManager(target, { logger: loggerOf(output), ...options });
  try {
    await body({ leases, target, output });
  } finally {
    await leases.close({ grace: 0, abandonAfter: 0 });
  }
}

/** Warnings always, the same of one lease once in 5 s; the rest if somebody asked for it. */
function loggerOf(output: Output): Logger {
  const detail = (_fields: object, message: string): void => {
    if (output.isVerbose) output.note(message, 'quiet');
  };
  const warning = (fields: Trouble, message: string): void => {
    const { resource, err } = fields;
    const parts = ['leasehold', resource, message, err?.message].filter((part) => part !== undefined && part !== '');
    output.note(parts.join(': '), 'warning');
  };
  return withoutRepeats({ debug: detail, info: detail, warn: warning, error: warning });
}

interface Trouble {
  readonly resource?: string;
  readonly err?: Error | null;
}
