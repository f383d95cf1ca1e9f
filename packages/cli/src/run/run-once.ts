import { randomUUID } from 'node:crypto';

import { ConfigError, type LeaseStore } from '@leasehold/core';
import type { Logger } from 'pino';

import type { LoadedConfig } from '../config/load.ts';
import { ConfigFileError } from '../config/problem.ts';
import type { JobSettings } from '../config/settings.ts';
import { sorted } from '../config/source.ts';
import { problemsOfTls } from '../config/tls-files.ts';
import type { AnyJobHandler } from './context.ts';
import { endOnCrash, giveUpLeases } from './crash.ts';
import { openFence, type OpenFence } from './fences.ts';
import { handlersOf, onlyThese } from './handlers.ts';
import { managerOf } from './manager.ts';
import { Metrics } from './metrics.ts';
import { Runs } from './runs.ts';
import { leaseOf, problemOf, workOf } from './set-up.ts';
import { isWithin } from './within.ts';

/** For connections to be closed; their servers may be out of reach. */
const CLOSE_WITHIN_MS = 2000;

export interface RunOnceOptions {
  readonly log: Logger;
  /** Ends the run: its own signal aborts. */
  readonly signal: AbortSignal;
  readonly handlers?: Readonly<Record<string, AnyJobHandler>>;
  readonly store?: LeaseStore;
}

/**
 * Runs one cron or interval job of a config now, without a tick, under its lease. Resolves with what the handler returned. Rejects as
 * `LeaseManager.run` does, with `ResourceBusyError` while another run has the lease; with `NotStartedError`, or the reason of the signal, when that came
 * before the handler was called; and with `ConfigFileError` for what cannot be run. An error that nobody catches ends the process, as in
 * `runConfig` with `signals`.
 */
export async function runOnce(config: LoadedConfig, name: string, options: RunOnceOptions): Promise<unknown> {
  const { log, signal } = options;
  const loaded = onlyThese(config, [name]);
  const { settings, source, folder } = loaded;
  const { handlers, problems } = await handlersOf(loaded, options.handlers ?? {});
  const files = problemsOfTls(settings, source);
  if (problems.length + files.length > 0) throw new ConfigFileError(sorted([...problems, ...files]));
  const manager = managerOf(settings, log, options.store);
  const closables: (() => Promise<unknown>)[] = [];
  const runs = new Runs(log, new Metrics());
  const stopTelling = endOnCrash(log, async () => (await giveUpLeases(manager)) ?? runs.active);
  try {
    const [job] = settings.jobs as [JobSettings];
    const fences = new Map<string, OpenFence>();
    try {
      const resource = resourceOf(job);
      for (const [its, fence] of settings.fences) {
        const opened = await openFence(its, fence, log);
        closables.push(opened.close);
        fences.set(its, opened);
      }
      const onClose = (_what: string, close: () => Promise<unknown>): void => void closables.push(close);
      const work = workOf(job, handlers, { manager, log, fences, folder, onClose });
      const { handler, fencesByName, patienceMs } = work;
      const run = { tick: null, trigger: 'manual', attempt: 1 } as const;
      const its = { name, id: null, data: undefined };
      return await manager.run(resource, { ...leaseOf(job.lease, work), signal }, (lease) =>
        runs.perform({ handler, job: its, run, lease, signal: lease.signal, fences: fencesByName, patienceMs }),
      );
    } catch (error) {
      if (runs.hasTold(error) || !(error instanceof ConfigError)) throw error;
      throw new ConfigFileError([problemOf(source, ['jobs', name], error)], error);
    }
  } finally {
    await manager.close({ grace: 0, abandonAfter: 0 });
    await Promise.all(closables.map((close) => isWithin(close(), CLOSE_WITHIN_MS)));
    stopTelling();
  }
}

/** Throws `ConfigError` for a job that nobody can run like this. */
function resourceOf(job: JobSettings): string {
  if (job.kind === 'queue') {
    throw new ConfigError(
      'queue',
      'is run by adding a job to it, as leasehold trigger does; only cron and interval jobs can be run by name',
    );
  }
  if (job.manual !== 'lease') {
    throw new ConfigError('manual', `is '${job.manual}': such a run is for 'lease', the default`);
  }
  // As a tick of its own.
  return job.lease.resource ?? `${job.name}@${randomUUID()}`;
}
