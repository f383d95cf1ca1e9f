import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { root } from '../../scripts/lib/prepare.mjs';

/** The folder of what build-programs.ts has compiled, for all processes of a run; absent where nothing was. */
export const PROGRAMS = 'LEASEHOLD_PROGRAMS';

/** For the BullMQ of this process: compiled code names it. */
export function programsFolder(of: string): string {
  return join(of, process.env['LEASEHOLD_BULLMQ'] ?? 'installed');
}

/** The compiled form of a TypeScript file; undefined where nothing was compiled. */
export function programOf(file: string): string | undefined {
  if (!file.endsWith('.ts')) return undefined;
  const folder = compiled();
  if (folder === undefined) return undefined;
  const program = join(folder, relative(root, file).replace(/\.ts$/, '.js'));
  if (existsSync(program)) return program;
  throw new Error(`${file} was not compiled: add it to test/support/build-programs.ts, or start it fromSource`);
}

/** The path of a config, for a program of `startChild`: where those are compiled, one that names the compiled handlers. */
export function configFile(file: URL): string {
  const path = fileURLToPath(file);
  const folder = compiled();
  return folder === undefined ? path : join(folder, relative(root, path));
}

function compiled(): string | undefined {
  const all = process.env[PROGRAMS];
  if (all === undefined) return undefined;
  const folder = programsFolder(all);
  // The few programs of the other projects' BullMQ are not worth it.
  return existsSync(folder) ? folder : undefined;
}
