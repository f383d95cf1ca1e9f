import type { LeaseManager, LeaseManagerOptions, Logger } from '@leasehold/core';
import type { Command } from 'commander';
import { describeTarget, findTarget, isStoreNamed, openManager, type Target } from '../connection.ts';
import type { Io } from '../output/io.ts';
import { Output } from '../output/output.ts';
import { withoutRepeats } from '../run/repeats.ts';
import { configFileHere, configHere, storeOfConfig } from './config-file.ts';
import type { CommonFlags } from './flags.ts';
import { typedLine } from './typed.ts';

/** What all commands of one run of the program share. */
export interface Session {
  readonly io: Io;
  /** Whether `--json` was given: errors are told as one object then. */
  readonly isJson: boolean;
  /** Set by the first command that has chosen its store, for messages about it. */
  address?: string | undefined;
  /** What may help if that store cannot be reached; a command line. */
  hint?: string | undefined;
  /** Set by a command whose end is neither a success nor an error. */
  exit: number;
}

export function outputOf(session: Session, command: Command): Output {
  // Of the two places of --no-color each counts: the parser lets the default of the first hide the second.
  const color = [command, command.parent].every((its) => its?.opts<CommonFlags>().color !== false);
  return new Output(session.io, { ...command.optsWithGlobals<CommonFlags>(), color });
}

export interface Connected {
  readonly leases: LeaseManager;
  readonly target: Target;
  readonly output: Output;
  readonly flags: CommonFlags;
}

/** Says whom it talks to, gives the manager to `body`, and closes it whatever happens. */
export async function withLeases(
  session: Session,
  command: Command,
  body: (connected: Connected) => Promise<void>,
  options: Omit<LeaseManagerOptions, 'store'> = {},
): Promise<void> {
  const output = outputOf(session, command);
  const target = await targetOf(session, command);
  session.address = target.address;
  output.note(describeTarget(target), 'quiet');
  const leases = await openManager(target, { logger: loggerOf(output), ...options });
  try {
    await body({ leases, target, output, flags: command.optsWithGlobals<CommonFlags>() });
  } finally {
    await leases.close({ grace: 0, abandonAfter: 0 });
  }
}

async function targetOf(session: Session, command: Command): Promise<Target> {
  const flags = command.optsWithGlobals<CommonFlags>();
  const { env } = session.io;
  if (!isStoreNamed(flags, env) && configFileHere() !== undefined) {
    session.hint = typedLine(command, '--url redis://<host>:<port>');
  }
  const config = flags.config ?? (await configHere(flags, env));
  const target = await findTarget({ ...flags, config }, env, (path) => storeOfConfig(path, env));
  const passedOver = config === undefined && flags.url === undefined ? configFileHere() : undefined;
  session.hint = undefined;
  if (passedOver === undefined) return target;
  // Perhaps the store that is meant is in it.
  session.hint = typedLine(command, `--config ${passedOver}`);
  return { ...target, origin: `${target.origin}, not ${passedOver}` };
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
