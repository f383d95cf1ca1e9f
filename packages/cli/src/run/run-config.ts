import type { LeaseStore } from '@leasehold/core';
import { pino, type Logger } from 'pino';

import { importHandlers } from '../config/handlers.ts';
import { readConfigValue, type LoadedConfig } from '../config/load.ts';
import { checkConfigKind, isLoaded } from '../config/loaded.ts';
import { ConfigFileError } from '../config/problem.ts';
import { sorted } from '../config/source.ts';
import { problemsOfTls } from '../config/tls-files.ts';
import type { LeaseholdConfig } from '../config/written.ts';
import type { AnyJobHandler } from './context.ts';
import { endOnCrash } from './crash.ts';
import { handlersOf, onlyThese } from './handlers.ts';
import { managerOf } from './manager.ts';
import { Running } from './running.ts';
import { checkRunConfigOptions } from './run-config-options.ts';
import type { ShutdownResult } from './shutdown.ts';
import { closeOnSignals } from './signals.ts';

export interface RunConfigOptions {
  /** By the names of the jobs. A job without one has the handler that the config names. */
  readonly handlers?: Readonly<Record<string, AnyJobHandler>>;
  /** @default a pino logger of level `info` to standard output */
  readonly log?: Logger;
  /**
   * Whether SIGTERM and SIGINT close it and then end the process, with 0, or with 1 if runs were left behind; a second one ends it at once,
   * with 143 or 130. An error that nobody catches is logged as `fatal` and ends the process with 1, when runs were aborted and have had 2 s
   * to give back their leases; unless somebody else listens for `uncaughtException`, who then decides.
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
   * releases the leases; closes all connections, which takes up to 4 s more where a server is out of reach. Called again it gives the first answer. Never rejects.
   */
  close(): Promise<ShutdownResult>;
}

/**
 * Runs the jobs of a config in this process, under leases of one manager. Resolves when all of them take work, or it was closed before; the
 * store need not be there by then (`ready`). The config is one that was loaded, or written out as for `defineConfig`; handlers of the latter
 * are relative to the working directory.
 *
 * Rejects with `ConfigError` for what is no config, such as the name of a file (`loadConfig` reads one), and for options that are none; with `ConfigFileError`, which names all that cannot work; and with `StoreAuthError` and `StoreVersionError`; then no job has begun
 * and nothing is left.
 */
export async function runConfig(
  config: LoadedConfig | LeaseholdConfig,
  options: RunConfigOptions = {},
): Promise<RunningConfig> {
  checkRunConfigOptions(options);
  const { log = pino({ name: 'leasehold' }), signals = false } = options;
  const loaded = onlyThese(await loadedOf(config, options.handlers), options.only);
  const { handlers, problems } = await handlersOf(loaded, options.handlers ?? {});
  const files = problemsOfTls(loaded.settings, loaded.source);
  if (files.length > 0) throw new ConfigFileError(sorted([...problems, ...files]));
  const manager = managerOf(loaded.settings, log, options.store);
  const running = new Running(loaded, manager, log);
  if (signals) {
    const stopListening = closeOnSignals((signal) => {
      log.info({ signal }, `${signal}: closing; a second signal ends the process at once`);
      return running.close();
    });
    const stopTelling = endOnCrash(log, () => running.giveUp());
    void running.closed.then(() => {
      stopListening();
      stopTelling();
    });
  }
  await running.start(handlers, problems);
  return running;
}

async function loadedOf(
  config: LoadedConfig | LeaseholdConfig,
  given: RunConfigOptions['handlers'] = {},
): Promise<LoadedConfig> {
  checkConfigKind(config);
  if (isLoaded(config)) return config;
  const { config: loaded, problems, code } = readConfigValue(config);
  if (loaded !== undefined) return loaded;
  const named = code.handlers.filter(({ name }) => !Object.hasOwn(given, name));
  const { problems: others } = await importHandlers({ ...code, handlers: named });
  throw new ConfigFileError(sorted([...problems, ...others]));
}
