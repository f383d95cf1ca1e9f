import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import { LeaseholdError, ManagerClosedError, type LeaseManager } from '@leasehold/core';
import { pino, type Logger } from 'pino';

import type { LoadedConfig } from '../config/load.ts';
import type { Problem } from '../config/problem.ts';
import type { Settings } from '../config/settings.ts';
import type { Source } from '../config/source.ts';
import { EXIT } from '../exit.ts';
import type { AnyJobHandler } from './context.ts';
import { giveUpLeases } from './crash.ts';
import { Deferred } from './deferred.ts';
import { openFence, type OpenFence } from './fences.ts';
import { Health } from './health.ts';
import { Metrics } from './metrics.ts';
import type { RunningConfig } from './run-config.ts';
import { Runs } from './runs.ts';
import { StatusServer } from './server.ts';
import { problemOf, setUp } from './set-up.ts';
import { shutDown, type ShutdownResult } from './shutdown.ts';
import type { Trade } from './trade.ts';

/** How long runs may take to end once they were aborted. Together with the grace it is what a container must be given. */
const SETTLE_MS = 5000;
/** How often a store is asked that has not answered yet. */
const ASK_EVERY_MS = 250;
const DEFAULT_TTL_MS = 30_000;
const REFRESH_RATIO = 3;

/** A config that is started once and closed once. */
export class Running implements RunningConfig {
  readonly closed: Promise<ShutdownResult>;
  readonly ready: Promise<void>;
  readonly #settings: Settings;
  readonly #folder: string;
  readonly #source: Source;
  readonly #closables: { readonly what: string; readonly close: () => Promise<unknown> }[] = [];
  readonly #manager: LeaseManager;
  readonly #log: Logger;
  readonly #metrics = new Metrics();
  readonly #runs: Runs;
  readonly #health: Health;
  readonly #server: StatusServer | undefined;
  readonly #fences = new Map<string, OpenFence>();
  readonly #closing = new AbortController();
  readonly #isClosed = new Deferred<ShutdownResult>();
  readonly #isReady = new Deferred<void>();
  #trades: readonly Trade[] = [];
  #started: Promise<void> = Promise.resolve();
  #isOpen = false;

  constructor({ settings, folder, source }: LoadedConfig, manager: LeaseManager, log: Logger) {
    this.#settings = settings;
    this.#folder = folder;
    this.#source = source;
    this.#manager = manager;
    this.#log = log;
    this.closed = this.#isClosed.promise;
    this.ready = this.#isReady.promise;
    this.ready.catch(() => {});
    const { exitOnAbandon } = settings.shutdown;
    // Not as a part of the run that it is about.
    const onAbandoned = AsyncResource.bind(() => void this.#exit());
    this.#runs = new Runs(log, this.#metrics, exitOnAbandon ? onAbandoned : undefined);
    const { refreshRatio = REFRESH_RATIO } = settings.timing;
    const ttlMs = Math.min(DEFAULT_TTL_MS, ...settings.jobs.map(({ lease }) => lease.ttlMs));
    this.#health = new Health(manager, ttlMs / refreshRatio, log, this.#metrics);
    this.#server = settings.server === undefined ? undefined : new StatusServer(this.#health, this.#metrics, log);
    this.#metrics.watch(manager);
  }

  get port(): number | undefined {
    return this.#server?.port;
  }

  /** `problems` are those found before. Rejects with what cannot work, when all that was begun is taken down again. */
  async start(handlers: ReadonlyMap<string, AnyJobHandler>, problems: readonly Problem[] = []): Promise<void> {
    this.#started = this.#start(handlers, [...problems]);
    try {
      await this.#started;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  close(): Promise<ShutdownResult> {
    if (!this.#closing.signal.aborted) {
      this.#closing.abort();
      this.#runs.close();
      this.#isReady.reject(new ManagerClosedError());
      void this.#close().then(this.#isClosed.resolve);
    }
    return this.closed;
  }

  /**
   * The process is about to end for an error that nobody has caught. Runs are aborted, none begins any more, and the leases of those that end
   * within 2 s are given back. Resolves with how many are left to run out. Never rejects.
   */
  async giveUp(): Promise<number> {
    this.#runs.close();
    this.#health.close();
    return (await giveUpLeases(this.#manager)) ?? this.#runs.active;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #start(handlers: ReadonlyMap<string, AnyJobHandler>, problems: Problem[]): Promise<void> {
    const { jobs, server, shutdown } = this.#settings;
    await this.#openFences(problems);
    if (server !== undefined && this.#server !== undefined) {
      this.#metrics.collectProcess();
      await this.#server
        .listen(server.listen)
        .catch((error: unknown) => problems.push(problemOf(this.#source, ['server', 'listen'], error)));
    }
    this.#trades = await setUp(jobs, handlers, problems, {
      manager: this.#manager,
      runs: this.#runs,
      log: this.#log,
      metrics: this.#metrics,
      fences: this.#fences,
      graceMs: shutdown.graceMs,
      source: this.#source,
      folder: this.#folder,
      onClose: (what, close) => this.#closables.push({ what, close }),
    });
    await this.#meetStore();
    if (this.#closing.signal.aborted) return;
    this.#health.open();
    this.#isOpen = true;
    for (const trade of this.#trades) trade.start();
    this.#log.info(
      { jobs: jobs.map(({ name }) => name), port: this.port },
      jobs.length === 1 ? '1 job takes work' : `${jobs.length} jobs take work`,
    );
    void this.#becomeReady();
  }

  async #openFences(problems: Problem[]): Promise<void> {
    for (const [name, settings] of this.#settings.fences) {
      try {
        const opened = await openFence(name, settings, this.#log);
        this.#fences.set(name, opened);
        this.#closables.push({ what: `fence ${name}`, close: opened.close });
      } catch (error) {
        problems.push(problemOf(this.#source, ['fences', name], error));
      }
    }
  }

  /** Asks it once. A store that is out of reach comes back; one that refuses us has to be told of now. */
  async #meetStore(): Promise<void> {
    const closing = new Promise<void>((resolve) => this.#closing.signal.addEventListener('abort', () => resolve()));
    await Promise.race([this.#health.readiness(), closing]);
    const refusal = LeaseholdError.of(this.#health.failure);
    if (refusal?.code === 'STORE_AUTH' || refusal?.code === 'STORE_VERSION') throw refusal;
  }

  async #becomeReady(): Promise<void> {
    const { signal } = this.#closing;
    while ((await this.#health.readiness()).status !== 'ready') {
      if (signal.aborted) return;
      await sleep(ASK_EVERY_MS, undefined, { signal }).catch(() => {});
    }
    this.#log.info({}, 'ready');
    this.#isReady.resolve();
  }

  /** The handler that was left behind ends with the process. */
  async #exit(): Promise<void> {
    this.#log.error(
      {},
      'closing, because a handler was left behind; then the process ends with 1 (shutdown.exitOnAbandon)',
    );
    await this.close();
    process.exit(EXIT.unexpected);
  }

  async #close(): Promise<ShutdownResult> {
    await this.#started.catch(() => {});
    const parts = {
      health: this.#health,
      trades: this.#trades,
      runs: this.#runs,
      manager: this.#manager,
      closables: this.#closables,
      server: this.#server,
    };
    const times = { graceMs: this.#isOpen ? this.#settings.shutdown.graceMs : 0, settleMs: SETTLE_MS };
    // Of what was never begun there is nothing to tell.
    return shutDown(parts, times, this.#isOpen ? this.#log : pino({ level: 'silent' }));
  }
}
