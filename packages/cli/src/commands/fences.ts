import type { Fence } from '@leasehold/core';
import type { Command } from 'commander';
import type { Io } from '../output/io.ts';
import { configHere } from './config-file.ts';
import type { CommonFlags } from './flags.ts';

/** The fences of the config that names the store; without one there are none. They are closed behind `body`. */
export async function withFences<T>(
  command: Command,
  io: Io,
  body: (fences: readonly Fence[]) => Promise<T>,
): Promise<T> {
  const flags = command.optsWithGlobals<CommonFlags>();
  const config = flags.config ?? (await configHere(flags, io.env));
  if (config === undefined) return body([]);
  const [{ loadConfig }, { openFence }, { pino }] = await Promise.all([
    import('../config/load.ts'),
    import('../run/fences.ts'),
    import('pino'),
  ]);
  const { settings } = await loadConfig(config, { env: io.env });
  // What a fence has to say is in its answer.
  const log = pino({ level: 'silent' });
  const opened = await Promise.all([...settings.fences].map(([name, its]) => openFence(name, its, log)));
  try {
    return await body(opened.map(({ fence }) => fence));
  } finally {
    await Promise.allSettled(opened.map(({ close }) => close()));
  }
}
