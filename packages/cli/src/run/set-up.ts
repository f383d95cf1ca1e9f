import { resolve } from 'node:path';

import type { LeasedWorkerOptions } from '@leasehold/bullmq';
import { ConfigError, LeaseholdError, type LeaseManager } from '@leasehold/core';
import { UnrecoverableError, type Job, type KeepJobs } from 'bullmq';
import type { Logger } from 'pino';

import { ConfigFileError, pathText, type Path, type Problem } from '../config/problem.ts';
import type {
  CronJobSettings,
  IntervalJobSettings,
  JobSettings,
  KeepSettings,
  QueueJobSettings,
} from '../config/settings.ts';
import { sorted, type Source } from '../config/source.ts';
import { queueConnectionOf } from '../redis.ts';
import type { AnyJobHandler } from './context.ts';
import { CronTrade } from './cron-trade.ts';
import { fencesOfJob, type OpenFence } from './fences.ts';
import { IntervalTrade } from './interval-trade.ts';
import { IsolatedHandler } from './isolated/isolated-handler.ts';
import type { Metrics } from './metrics.ts';
import { QueueTrade } from './queue-trade.ts';
import type { Runs } from './runs.ts';
import type { Trade } from './trade.ts';
import type { Work } from './work.ts';

/** How long a handler may ignore its signal, if its job does not say. As long as a shutdown waits for it. */
const PATIENCE_MS = 5000;

/** What a job needs for its work. */
export interface WorkPlace {
  readonly manager: LeaseManager;
  readonly log: Logger;
  readonly fences: ReadonlyMap<string, OpenFence>;
  /** The folder that handlers are relative to. */
  readonly folder: string;
  /** To be called when all runs have ended. */
  readonly onClose: (what: string, close: () => Promise<unknown>) => void;
}

/** What all jobs share. */
export interface Shared extends WorkPlace {
  readonly runs: Runs;
  readonly metrics: Metrics;
  readonly graceMs: number;
  /** Says where in the config something is. */
  readonly source: Source;
}

/**
 * Makes what begins runs, one after the other, and starts nothing: what connects at once comes last, after all that can be refused. Rejects with
 * `ConfigFileError` that names what was found before and what is wrong with each job, and leaves nothing behind then.
 */
export async function setUp(
  jobs: readonly JobSettings[],
  handlers: ReadonlyMap<string, AnyJobHandler>,
  found: readonly Problem[],
  shared: Shared,
): Promise<readonly Trade[]> {
  const { manager, runs, log, metrics, source } = shared;
  const cron = new CronTrade(manager, runs, log, metrics);
  const trades: Trade[] = [cron];
  const problems = [...found];
  const queuesLast = jobs.toSorted((a, b) => Number(a.kind === 'queue') - Number(b.kind === 'queue'));
  for (const job of queuesLast) {
    // Why it has none is among what was found.
    if (found.length > 0 && !handlers.has(job.name)) continue;
    try {
      const work = workOf(job, handlers, shared);
      if (job.kind === 'cron') addCron(cron, work, job);
      // A worker connects, so there is none of a config that will be refused.
      else if (job.kind === 'interval') trades.push(intervalOf(work, job, shared));
      else if (problems.length === 0) trades.push(queueOf(work, job, shared));
      metrics.expect(job.name);
    } catch (error) {
      problems.push(problemOf(source, ['jobs', job.name], error));
    }
  }
  if (problems.length === 0) return trades;
  await Promise.allSettled(trades.map(async (trade) => trade.stop(0)));
  throw new ConfigFileError(sorted(problems));
}

/** What cannot work about a part of the config, whoever found it. The options of errors are paths, from the part or from the root. */
export function problemOf(source: Source, path: Path, error: unknown): Problem {
  const found = LeaseholdError.of(error);
  if (!(found instanceof ConfigError)) return source.problem(path, String(error));
  const { option, message } = found;
  const from = `${pathText(path)}.`;
  const inner = option.startsWith(from) ? option.slice(from.length) : option;
  const at = inner === '' || option === pathText(path) ? path : [...path, ...inner.split('.')];
  // Its message is `CONFIG: option: rule`.
  return source.problem(at, message.slice(`CONFIG: ${option}: `.length));
}

/** Throws `ConfigError`. */
export function workOf(job: JobSettings, handlers: ReadonlyMap<string, AnyJobHandler>, place: WorkPlace): Work {
  const { name, lease } = job;
  const { fences } = place;
  const all = [...fences].map(([its, { fence }]) => [its, lease.fences.includes(its) ? fence : null] as const);
  const { list, byName } = fencesOfJob(name, new Map(all));
  const patienceMs =
    job.kind === 'queue' && job.lease.abandonAfterMs < Infinity ? job.lease.abandonAfterMs : PATIENCE_MS;
  return { name, handler: handlerOf(job, handlers, place), fences: list, fencesByName: byName, patienceMs };
}

function handlerOf(job: JobSettings, handlers: ReadonlyMap<string, AnyJobHandler>, place: WorkPlace): AnyJobHandler {
  const { name, isolate, handler, lease } = job;
  switch (isolate) {
    case 'none': {
      const its = handlers.get(name);
      if (its === undefined) throw new ConfigError('handler', 'is missing: nothing was given that does the work');
      return its;
    }
    case 'thread':
    case 'process': {
      const { fences, folder, log, manager, onClose } = place;
      const isolated = new IsolatedHandler(
        isolate,
        {
          job: name,
          file: resolve(folder, handler.module),
          exported: handler.exported,
          fences: [...fences].map(([its, { settings }]) => [its, lease.fences.includes(its) ? settings : null]),
          logLevel: log.level,
        },
        manager,
      );
      onClose(`${isolate === 'thread' ? 'threads' : 'processes'} of ${name}`, () => isolated.close());
      return isolated.handler;
    }
  }
}

export function leaseOf(
  { ttlMs, maxHoldMs, activate }: JobSettings['lease'],
  { fences }: Work,
): Pick<LeasedWorkerOptions['lease'], 'ttl' | 'maxHold' | 'activate' | 'fences'> {
  return { ttl: ttlMs, maxHold: maxHoldMs, activate, fences };
}

function addCron(cron: CronTrade, work: Work, job: CronJobSettings): void {
  const { expression, timezone, startingDeadlineMs, overlap, catchUp, retry, maxRandomDelayMs, manual } = job;
  const { maxExecutions, missedExecutionToleranceMs, suppressMissedWarning } = job;
  const { resource } = job.lease;
  cron.add(work, expression, {
    name: work.name,
    timezone,
    startingDeadline: startingDeadlineMs,
    overlap,
    catchUp,
    retry,
    maxRandomDelay: maxRandomDelayMs,
    suppressMissedWarning,
    ...(maxExecutions === undefined ? {} : { maxExecutions }),
    ...(missedExecutionToleranceMs === undefined ? {} : { missedExecutionTolerance: missedExecutionToleranceMs }),
    manual,
    lease: { ...leaseOf(job.lease, work), ...(resource === undefined ? {} : { resource }) },
  });
}

function intervalOf(work: Work, job: IntervalJobSettings, shared: Shared): Trade {
  const { everyMs, minHoldMs, manual } = job;
  const lease = { ...leaseOf(job.lease, work), resource: job.lease.resource };
  return new IntervalTrade(work, everyMs, { minHold: minHoldMs, manual, lease }, shared);
}

function queueOf(work: Work, job: QueueJobSettings, shared: Shared): Trade {
  const { queue, prefix, connection, concurrency, limiter, lockDurationMs, lease } = job;
  const { scope, whenBusy, whenLost, abandonAfterMs } = lease;
  const { stalledIntervalMs, maxStalledCount, removeOnComplete, removeOnFail } = job;
  const its = queueConnectionOf(connection);
  shared.onClose(`connection of ${job.name}`, its.close);
  return new QueueTrade(
    work,
    queue,
    {
      connection: its.connection,
      prefix,
      concurrency,
      ...(limiter === undefined ? {} : { limiter: { max: limiter.max, duration: limiter.durationMs } }),
      ...(lockDurationMs === undefined ? {} : { lockDuration: lockDurationMs }),
      ...(stalledIntervalMs === undefined ? {} : { stalledInterval: stalledIntervalMs }),
      ...(maxStalledCount === undefined ? {} : { maxStalledCount }),
      ...(removeOnComplete === undefined ? {} : { removeOnComplete: keepOf(removeOnComplete) }),
      ...(removeOnFail === undefined ? {} : { removeOnFail: keepOf(removeOnFail) }),
      lease: {
        ...leaseOf(lease, work),
        manager: shared.manager,
        resource: lease.resource.fields.length === 0 ? lease.resource.text : (one) => resourceOf(lease.resource, one),
        scope,
        ...(scope === 'worker' ? {} : { whenBusy }),
        whenLost,
        abandonAfter: abandonAfterMs,
        grace: shared.graceMs,
      },
    },
    shared,
  );
}

/** BullMQ has ages in seconds, and takes -1 for no limit. */
function keepOf({ count = -1, ageMs }: KeepSettings): KeepJobs {
  return ageMs === undefined ? { count } : { age: Math.ceil(ageMs / 1000), count };
}

/** A job that does not carry what its resource is named by will not carry it at the next try either. */
function resourceOf(template: QueueJobSettings['lease']['resource'], { name, id, data }: Job): string {
  try {
    return template.resourceOf({ name, id, data: data as unknown });
  } catch (error) {
    if (LeaseholdError.of(error)?.code !== 'CONFIG') throw error;
    throw Object.assign(new UnrecoverableError((error as Error).message), { cause: error });
  }
}
