import type { LoadedConfig } from '../../../src/config/load.ts';
import { Source } from '../../../src/config/source.ts';
import type { CronJobSettings, IntervalJobSettings, JobSettings, Settings } from '../../../src/config/settings.ts';

const lease = { ttlMs: 3000, maxHoldMs: Infinity, fences: [], activate: 'before' } as const;
const common = { handler: { module: './jobs.js', exported: 'default' }, isolate: 'none', manual: 'lease' } as const;

type Given<Job extends JobSettings> = Partial<Omit<Job, 'lease'>> & { readonly lease?: Partial<Job['lease']> };

/** A job that is asked for at the start, and then not for an hour. */
export function intervalJob(name: string, others: Given<IntervalJobSettings> = {}): IntervalJobSettings {
  const times = { everyMs: 3_600_000, minHoldMs: 3_599_000 };
  return {
    kind: 'interval',
    name,
    ...common,
    ...times,
    ...others,
    lease: { ...lease, resource: name, ...others.lease },
  };
}

/** A job that runs every second. */
export function cronJob(name: string, others: Given<CronJobSettings> = {}): CronJobSettings {
  return {
    kind: 'cron',
    name,
    ...common,
    expression: '* * * * * *',
    timezone: 'UTC',
    startingDeadlineMs: 300_000,
    overlap: 'skip',
    catchUp: 'none',
    retry: 0,
    maxRandomDelayMs: 0,
    maxExecutions: undefined,
    missedExecutionToleranceMs: undefined,
    suppressMissedWarning: false,
    ...others,
    lease: { ...lease, resource: name, ...others.lease },
  };
}

/** With a status server on a port that the system chooses. */
export function configOf(jobs: readonly JobSettings[], others: Partial<Settings> = {}): LoadedConfig {
  const settings: Settings = {
    store: {
      redis: 'redis://127.0.0.1:1',
      prefix: 'test',
      endpoints: [],
      connectTimeoutMs: 100,
      history: 'exceptions',
      quarantine: false,
    },
    fences: new Map(),
    timing: {},
    server: { listen: { host: '127.0.0.1', port: 0 } },
    shutdown: { graceMs: 100, exitOnAbandon: false },
    jobs,
    ...others,
  };
  return { settings, folder: '/nowhere', source: new Source(undefined) };
}
