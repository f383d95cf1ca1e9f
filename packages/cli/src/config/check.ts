import type { z } from 'zod';

import { cronJob, intervalJob, queueJob } from './job-schema.ts';
import { Judge } from './judge.ts';
import { nearest } from './nearest.ts';
import { shorten, type Path, type Problem } from './problem.ts';
import { redisOf } from './redis.ts';
import { checkFences, cronSettings, intervalSettings, queueSettings, type Context } from './rules.ts';
import { FENCE_NAME, JOB_NAME, outerSchema, postgresFence, redisFence } from './schema.ts';
import type {
  FenceSettings,
  HandlerSettings,
  JobSettings,
  RedisSettings,
  Settings,
  StoreSettings,
} from './settings.ts';
import type { Source } from './source.ts';
import { checkTiming } from './timing.ts';
import { handler } from './values.ts';

interface Checked {
  /** Undefined if there is a problem. */
  readonly settings: Settings | undefined;
  readonly problems: readonly Problem[];
  /** The code of the jobs that name any, whatever else is wrong with them. */
  readonly handlers: readonly NamedHandler[];
}

/** What a job names as its code. */
export interface NamedHandler {
  readonly name: string;
  readonly handler: HandlerSettings;
}

/** Checks a config as a whole: everything that is wrong with it, or settings. */
export function check(raw: unknown, source: Source, unset: ReadonlySet<string>, folder: string): Checked {
  const judge = new Judge(source, unset);
  const settings = settingsOf(raw, judge, folder);
  const { problems } = judge;
  return { settings: problems.length > 0 ? undefined : settings, problems, handlers: handlersIn(raw, judge) };
}

const code = handler();

function handlersIn(raw: unknown, judge: Judge): readonly NamedHandler[] {
  const jobs = isMap(raw) && isMap(raw['jobs']) ? Object.entries(raw['jobs']) : [];
  return jobs.flatMap(([name, job]) => {
    const { data } = code.safeParse(isMap(job) ? job['handler'] : undefined);
    return data === undefined || judge.hasUnset(['jobs', name, 'handler']) ? [] : [{ name, handler: data }];
  });
}

function settingsOf(raw: unknown, judge: Judge, folder: string): Settings | undefined {
  if (!isMap(raw)) {
    const what = raw === null || raw === undefined ? 'is empty' : `is ${judge.shown([], raw)}`;
    judge.add([], what, 'begin with version: 1, store: { redis: … } and jobs: { … }');
    return undefined;
  }
  const outer = judge.parse(outerSchema, raw, []);
  const part = (key: string): unknown => (isMap(raw[key]) ? raw[key] : undefined);
  const fences = new Map<string, FenceSettings>();
  const fenceNames = Object.keys(part('fences') ?? {});
  for (const [name, value] of Object.entries(part('fences') ?? {})) {
    const fence = fenceOf(judge, name, value, folder);
    if (fence !== undefined) fences.set(name, fence);
  }
  // What is wrong in the defaults is said once, not for each job.
  const { defaults = {} } = outer ?? {};
  const redis = redisOf(
    judge,
    ['store', 'redis'],
    (part('store') as Partial<Record<string, unknown>>)?.['redis'],
    folder,
  );
  const timing = checkTiming(judge, raw);
  const context: Context = { judge, defaults, timing, fences: fenceNames, redis, folder };
  const jobs = Object.entries(part('jobs') ?? {}).map(([name, value]) => jobOf(context, name, value));
  if (isMap(raw['jobs']) && jobs.length === 0) judge.add(['jobs'], 'has no job');
  if (outer === undefined || redis === undefined || jobs.includes(undefined)) return undefined;
  return {
    store: storeSettings(outer.store, redis),
    fences,
    server: outer.server,
    timing,
    shutdown: {
      graceMs: outer.shutdown?.grace ?? 10_000,
      exitOnAbandon: outer.shutdown?.exitOnAbandon ?? false,
    },
    jobs: jobs as JobSettings[],
  };
}

function storeSettings(store: z.output<typeof outerSchema>['store'], redis: RedisSettings): StoreSettings {
  const { prefix = 'leasehold', endpoints = [], connectTimeout = 5000 } = store;
  const { history = 'exceptions', quarantine = false } = store;
  return { redis, prefix, endpoints, connectTimeoutMs: connectTimeout, history, quarantine };
}

function fenceOf(judge: Judge, name: string, value: unknown, folder: string): FenceSettings | undefined {
  const path = ['fences', name];
  if (!FENCE_NAME.test(name)) {
    const rule = 'must be 1 to 64 of A-Z a-z 0-9 _ -, beginning with a letter';
    judge.add(path, `is not the name of a fence: it ${rule}`, undefined, 'key');
  }
  const kind = kindOf(judge, path, value, ['postgres', 'redis'], 'does not say where the data is');
  if (kind === 'redis') {
    const redis = redisOf(judge, [...path, 'redis'], (value as { readonly redis: unknown }).redis, folder);
    const fence = judge.parse(redisFence, value, path);
    return fence && redis !== undefined ? { kind, redis, timeoutMs: fence.timeout } : undefined;
  }
  const fence = kind && judge.parse(postgresFence, value, path);
  if (fence === undefined) return undefined;
  const { postgres, schema = 'leasehold', timeout, idleTimeout, lockTimeout, isolation = 'read committed' } = fence;
  if (lockTimeout !== undefined && lockTimeout <= (idleTimeout ?? 5000)) {
    const rule = 'must be more than idleTimeout (5s if it is left out), after which a stopped owner is gone';
    judge.add([...path, 'lockTimeout'], `is too short: it ${rule}`);
  }
  const times = { timeoutMs: timeout, idleTimeoutMs: idleTimeout, lockTimeoutMs: lockTimeout };
  return { kind: 'postgres', url: postgres, schema, ...times, isolation };
}

const KINDS = { cron: cronJob, queue: queueJob, every: intervalJob } as const;
const KIND_NAMES = { cron: 'a cron job', queue: 'a queue job', every: 'an interval job' } as const;
type Kind = keyof typeof KINDS;

function jobOf(context: Context, name: string, value: unknown): JobSettings | undefined {
  const { judge } = context;
  const path = ['jobs', name];
  if (!JOB_NAME.test(name)) {
    const rule = 'must be 1 to 128 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit';
    judge.add(path, `is not the name of a job: it ${rule}`, undefined, 'key');
  }
  const kind = kindOf(judge, path, value, ['cron', 'queue', 'every'], 'does not say when it runs');
  const others = (key: string): readonly [string, string?] | undefined => {
    const home = (Object.keys(KINDS) as Kind[]).find((other) => Object.hasOwn(KINDS[other].shape, key));
    if (kind === undefined || home === undefined || home === kind) return undefined;
    return [`is for ${KIND_NAMES[home].replace(/^an? /, '')}s, and this is ${KIND_NAMES[kind]}`];
  };
  switch (kind) {
    case undefined:
      return undefined;
    case 'cron': {
      const job = judge.parse(cronJob, value, path, others);
      return job === undefined ? broken(context, path, value) : cronSettings(context, name, job);
    }
    case 'queue': {
      const { connection } = value as { readonly connection?: unknown };
      const own = redisOf(judge, [...path, 'connection'], connection, context.folder);
      const job = judge.parse(queueJob, value, path, others);
      if (job === undefined) return broken(context, path, value);
      return queueSettings(context, name, job, job.connection === undefined ? context.redis : own);
    }
    case 'every': {
      const job = judge.parse(intervalJob, value, path, others);
      return job === undefined ? broken(context, path, value) : intervalSettings(context, name, job);
    }
  }
}

/** Of a job that something is wrong with, what can be said all the same. */
function broken(context: Context, path: Path, value: unknown): undefined {
  const lease = isMap(value) ? value['lease'] : undefined;
  const fences = isMap(lease) ? lease['fences'] : undefined;
  if (Array.isArray(fences)) checkFences(context, path, fences);
}

/** Which of the kinds it is, by the key that it has; anything else is a problem. */
function kindOf<K extends string>(
  judge: Judge,
  path: Path,
  value: unknown,
  kinds: readonly K[],
  none: string,
): K | undefined {
  const choice = `${kinds.slice(0, -1).join(', ')} or ${kinds.at(-1)}`;
  if (!isMap(value)) {
    judge.add(path, `is ${judge.shown(path, value)}: must be a map with ${choice}`);
    return undefined;
  }
  const has = kinds.filter((kind) => Object.hasOwn(value, kind));
  if (has.length > 1) {
    judge.add(path, `has ${has.join(' and ')}`, 'keep one of them');
    return undefined;
  }
  if (has[0] !== undefined) return has[0];
  const alike = Object.keys(value).find((key) => nearest(key, kinds) !== undefined || FOREIGN.has(key));
  const meant = alike === undefined ? undefined : (FOREIGN.get(alike) ?? nearest(alike, kinds));
  if (alike === undefined || meant === undefined) judge.add(path, none, `give it ${choice}`);
  else judge.add([...path, shorten(alike)], 'is not known here', `did you mean ${meant}?`, 'key');
  return undefined;
}

/** What others call the key that decides. */
const FOREIGN: ReadonlyMap<string, string> = new Map([
  ['schedule', 'cron'],
  ['expression', 'cron'],
  ['pattern', 'cron'],
  ['interval', 'every'],
  ['url', 'postgres or redis'],
]);

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
