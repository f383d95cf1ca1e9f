import { existsSync } from 'node:fs';
import { isStoreNamed, type ConfiguredStore, type ConnectionFlags } from '../connection.ts';
import { CONFIG_FILES } from '../config/file-names.ts';
import type { LoadedConfig } from '../config/load.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The file that was named, or that of the working directory, as people name it from where they stand. Rejects with `ConfigFileError`. */
export async function fileNamed(file: string | undefined): Promise<string> {
  const { findConfig } = await import('../config/load.ts');
  return file ?? findConfig('.');
}

/** Reads a config, or the one in the working directory. Rejects with `ConfigFileError`. */
export async function readConfig(
  file: string | undefined,
  env: Environment,
): Promise<{ readonly file: string; readonly config: LoadedConfig }> {
  const { loadConfig } = await import('../config/load.ts');
  const found = await fileNamed(file);
  return { file: found, config: await loadConfig(found, { env }) };
}

/** As `readConfig`, for who runs the jobs: of a config that cannot be used, what is wrong with its code is told as well. */
export async function readJobs(
  file: string | undefined,
  env: Environment,
): Promise<{ readonly file: string; readonly config: LoadedConfig }> {
  const [{ readConfigFile }, { importHandlers }, { ConfigFileError }, { sorted }] = await Promise.all([
    import('../config/load.ts'),
    import('../config/handlers.ts'),
    import('../config/problem.ts'),
    import('../config/source.ts'),
  ]);
  const found = await fileNamed(file);
  const { config, problems, code } = await readConfigFile(found, { env });
  if (config !== undefined) return { file: found, config };
  throw new ConfigFileError(sorted([...problems, ...(await importHandlers(code)).problems]));
}

/**
 * The config in the working directory, if nobody has said which store is meant. A module is code, which is not run by a
 * question unless it was named. Rejects with `ConfigFileError` if there is more than one.
 */
export async function configHere(flags: ConnectionFlags, env: Environment): Promise<string | undefined> {
  const file = configFileHere();
  if (file === undefined || isStoreNamed(flags, env)) return undefined;
  const { findConfig } = await import('../config/load.ts');
  return isData(file) ? findConfig('.') : undefined;
}

/** The first by its name that is in the working directory. */
export function configFileHere(): string | undefined {
  return CONFIG_FILES.find((name) => existsSync(name));
}

function isData(file: string): boolean {
  return /\.(ya?ml|json)$/.test(file);
}

export async function storeOfConfig(file: string, env: Environment): Promise<ConfiguredStore> {
  const { config } = await readConfig(file, env);
  const { redis, prefix, endpoints, quarantine } = config.settings.store;
  const [{ problemsOfRedis }, { ConfigFileError }] = await Promise.all([
    import('../config/tls-files.ts'),
    import('../config/problem.ts'),
  ]);
  const problems = problemsOfRedis(redis, ['store', 'redis'], config.source);
  if (problems.length > 0) throw new ConfigFileError(problems);
  const longestTtlMs = Math.max(0, ...config.settings.jobs.map(({ lease }) => lease.ttlMs)) || undefined;
  return { redis, prefix, endpoints, quarantine, longestTtlMs };
}
