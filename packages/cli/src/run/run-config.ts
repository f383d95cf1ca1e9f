import { LeaseManager, type LeaseStore } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { pino, type Logger } from 'pino';

import { resolveHandlers } from '../config/handlers.ts';
import { parseConfig, type LoadedConfig } from '../config/load.ts';
import { ConfigFileError, type Problem } from '../config/problem.ts';
import { Source } from '../config/source.ts';
import type { LeaseholdConfig } from '../config/written.ts';
import type { AnyJobHandler } from './context.ts';
import { Running } from './running.ts';
import type { ShutdownResult } from './shutdown.ts';
import { closeOnSignals } from './signals.ts';

export interface RunConfigOptions {
  /** By the names of the jobs. A job without one has the handler that the config names. */
  readonly handlers?: Readonly<Record<string, AnyJobHandler>>;
  /** @default a pino logger of level `info` to standard output */
  readonly log?: Logger;
  /**
   * Whether SIGTERM and SIGINT close it and then end the process, with 0; a second one ends it at once, with 143 or 130.
   * @default false
   */
  readonly signals?: boolean;
  /** Runs these jobs of the config alone. @default all */
  readonly only?: readonly string[];
  /** Where the leases are, instead of the Redis of the config. Queues stay where they are. */
  readonly store?: LeaseStore;
}

/** Jobs of a config that run. */
export interface RunningConfig extends AsyncDisposable {
  /**
   * Resolves when the store has answered: from then on runs can begin. Rejects with `ManagerClosedError` if it was closed before; nobody has
   * to listen.
   */
  readonly ready: Promise<void>;
  /** Resolves when it is closed, whoever closed it. Never rejects. */
  readonly closed: Promise<ShutdownResult>;
  /** The port of `/livez`, `/readyz` and `/metrics`; undefined without `server.listen`. */
  readonly port: number | undefined;
  /**
   * Takes no more work; lets runs go on for `shutdown.grace`; aborts them (`RunCancelledError`, reason `shutdown`) and waits 5 s for them;
   * releases the leases; closes all connections. Called again it gives the first answer. Never rejects.
   */
  close(): Promise<ShutdownResult>;
}

/**
 * Runs the jobs of a config in this process, under leases of one manager. Resolves when all of them take work, or it was closed before; the
 * store need not be there by then (`ready`). The config is one that was loaded, or written out as for `defineConfig`; handlers of the latter
 * are relative to the working directory.
 *
 * Rejects with `ConfigFileError`, which names all that cannot work, and with `StoreAuthError` and `StoreVersionError`; then no job has begun
 * and nothing is left.
 */
export async function runConfig(
  config: LoadedConfig | LeaseholdConfig,
  options: RunConfigOptions = {},
): Promise<RunningConfig> {
  const { log = pino({ name: 'leasehold' }), signals = false } = options;
  const loaded = onlyThese(isLoaded(config) ? config : parseConfig(config), options.only);
  const { handlers, problems } = await handlersOf(loaded, options.handlers ?? {});
  const { settings } = loaded;
  const { redis, prefix, connectTimeoutMs, history, quarantine } = settings.store;
  const store = options.store ?? redisStore(redis, { prefix, connectTimeout: connectTimeoutMs });
  // The shortest lease decides how soon the store is missed.
  const ttl = Math.min(...settings.jobs.map(({ lease }) => lease.ttlMs));
  const manager = new LeaseManager({ store, history, quarantine, logger: log, ...(ttl < Infinity ? { ttl } : {}) });
  const running = new Running(loaded, manager, log);
  if (signals) {
    const stopListening = closeOnSignals((signal) => {
      log.info({ signal }, `${signal}: closing; a second signal ends the process at once`);
      return running.close();
    });
    void running.closed.then(stopListening);
  }
  await running.start(handlers, problems);
  return running;
}

function isLoaded(config: LoadedConfig | LeaseholdConfig): config is LoadedConfig {
  return 'source' in config && config.source instanceof Source;
}

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
async function handlersOf(config: LoadedConfig, given: Readonly<Record<string, AnyJobHandler>>): Promise<Handlers> {
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
