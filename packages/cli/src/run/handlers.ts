import { resolveHandlers } from '../config/handlers.ts';
import type { LoadedConfig } from '../config/load.ts';
import { ConfigFileError, type Problem } from '../config/problem.ts';
import type { AnyJobHandler } from './context.ts';

/** The config with these jobs alone. Throws `ConfigFileError` for names of none. */
export function onlyThese(config: LoadedConfig, only: readonly string[] | undefined): LoadedConfig {
  if (only === undefined) return config;
  const { settings, source } = config;
  const unknown = only.filter((name) => !settings.jobs.some((job) => job.name === name));
  if (unknown.length > 0) {
    const names = settings.jobs.map(({ name }) => name).join(', ');
    throw new ConfigFileError(
      unknown.map((name) => source.problem(['jobs'], `has no job '${name}'`, `there are ${names}`)),
    );
  }
  return { ...config, settings: { ...settings, jobs: settings.jobs.filter(({ name }) => only.includes(name)) } };
}

interface Handlers {
  readonly handlers: ReadonlyMap<string, AnyJobHandler>;
  readonly problems: readonly Problem[];
}

/** Those that were given, and for the rest those that the config names. */
export async function handlersOf(
  config: LoadedConfig,
  given: Readonly<Record<string, AnyJobHandler>>,
): Promise<Handlers> {
  const jobs = config.settings.jobs.map(({ name }) => name);
  const strange = Object.keys(given).filter((name) => !jobs.includes(name));
  const problems = strange.map((name) =>
    config.source.problem(
      ['jobs'],
      `has no job '${name}', for which a handler was given`,
      'give handlers by the names of jobs',
    ),
  );
  const isolated = config.settings.jobs.filter(({ name, isolate }) => isolate !== 'none' && Object.hasOwn(given, name));
  for (const { name } of isolated) {
    const rule = 'is for a handler in a file, and this one was given as a function, which cannot go elsewhere';
    problems.push(config.source.problem(['jobs', name, 'isolate'], rule, 'leave out one of the two'));
  }
  const handlers = new Map(Object.entries(given));
  const named = jobs.filter((name) => !handlers.has(name));
  try {
    for (const [name, handler] of await resolveHandlers(config, named)) handlers.set(name, handler);
  } catch (error) {
    if (!(error instanceof ConfigFileError)) throw error;
    problems.push(...error.problems);
  }
  return { handlers, problems };
}
