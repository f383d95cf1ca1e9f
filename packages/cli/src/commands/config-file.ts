import type { ConfiguredStore } from '../connection.ts';
import type { LoadedConfig } from '../config/load.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a config, or the one in the working directory. Rejects with `ConfigFileError`. */
export async function readConfig(
  file: string | undefined,
  env: Environment,
): Promise<{ readonly file: string; readonly config: LoadedConfig }> {
  const { findConfig, loadConfig } = await import('../config/load.ts');
  // Named as people name it from where they stand.
  const found = file ?? (await findConfig('.'));
  return { file: found, config: await loadConfig(found, { env }) };
}

export async function storeOfConfig(file: string, env: Environment): Promise<ConfiguredStore> {
  const { config } = await readConfig(file, env);
  const { redis, prefix } = config.settings.store;
  const [{ problemsOfRedis }, { ConfigFileError }] = await Promise.all([
    import('../config/tls-files.ts'),
    import('../config/problem.ts'),
  ]);
  const problems = problemsOfRedis(redis, ['store', 'redis'], config.source);
  if (problems.length > 0) throw new ConfigFileError(problems);
  return { redis, prefix };
}
