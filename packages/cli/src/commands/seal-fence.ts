import type { Fence } from '@leasehold/core';
import type { Command } from 'commander';
import type { FenceSettings } from '../config/settings.ts';
import { addressOf } from '../connection.ts';
import { CliError, EXIT } from '../exit.ts';
import type { Io } from '../output/io.ts';
import { configHere, readConfig } from './config-file.ts';
import { databaseAddress } from './fence-database.ts';
import type { CommonFlags } from './flags.ts';
import { typedLine } from './typed.ts';

/** Which fence: exactly one of the first three. */
export interface FenceFlags {
  readonly fence?: string;
  readonly database?: string;
  readonly redisFence?: string;
  readonly schema: string;
}

export interface NamedFence {
  readonly fence: Fence;
  /** `ledger (postgres://db-3:5432/shop)`, never with a password. */
  readonly label: string;
}

/** Throws `CliError`, exit 2, unless exactly one fence is named. */
export function checkOneFence({ fence, database, redisFence }: FenceFlags): void {
  const named = [fence, database, redisFence].filter((flag) => flag !== undefined);
  if (named.length === 1) return;
  throw new CliError(
    EXIT.usage,
    `${named.length === 0 ? 'no fence is named' : 'more than one fence is named'}: give one of --fence, --database, --redis-fence`,
    'leasehold seal --help',
  );
}

/** Opens the fence that the flags name, gives it to `body`, and closes it whatever happens. */
export async function withFence<T>(
  flags: FenceFlags,
  command: Command,
  io: Io,
  body: (named: NamedFence) => Promise<T>,
): Promise<T> {
  const { name, settings } = await settingsOf(flags, command, io);
  const [{ openFence }, { pino }] = await Promise.all([import('../run/fences.ts'), import('pino')]);
  // What the fence has to say is in its answer.
  const { fence, close } = await openFence(name, settings, pino({ level: 'silent' }));
  try {
    const address = settings.kind === 'postgres' ? databaseAddress(settings.url) : addressOf(settings.redis);
    return await body({ fence, label: `${name} (${address})` });
  } finally {
    await close();
  }
}

interface Named {
  readonly name: string;
  readonly settings: FenceSettings;
}

async function settingsOf(
  { fence, database, redisFence, schema }: FenceFlags,
  command: Command,
  io: Io,
): Promise<Named> {
  if (fence !== undefined) return ofConfig(fence, command, io);
  if (database !== undefined) {
    databaseAddress(database);
    const times = { timeoutMs: undefined, idleTimeoutMs: undefined, lockTimeoutMs: undefined };
    return {
      name: 'postgres',
      settings: { kind: 'postgres', url: database, schema, isolation: 'read committed', ...times },
    };
  }
  if (redisFence === undefined || !/^rediss?:\/\/./.test(redisFence) || !URL.canParse(redisFence)) {
    throw new CliError(EXIT.usage, '--redis-fence is no address of the form redis://host:port/database or rediss://…');
  }
  return { name: 'redis', settings: { kind: 'redis', redis: redisFence, timeoutMs: undefined } };
}

async function ofConfig(name: string, command: Command, io: Io): Promise<Named> {
  const flags = command.optsWithGlobals<CommonFlags>();
  const file = flags.config ?? (await configHere(flags, io.env));
  if (file === undefined) {
    throw new CliError(
      EXIT.usage,
      `--fence ${name} is the name of a fence of a config, and no config is asked`,
      typedLine(command, '--config leasehold.yaml'),
    );
  }
  const { config } = await readConfig(file, io.env);
  const { fences } = config.settings;
  const settings = fences.get(name);
  if (settings !== undefined) return { name, settings };
  const known = fences.size === 0 ? 'it has none' : `it has ${[...fences.keys()].join(', ')}`;
  throw new CliError(EXIT.usage, `${file} has no fence ${name}: ${known}`);
}
