import { nearest } from './nearest.ts';

/** What others call the options of a job. */
const OF_JOBS: Readonly<Record<string, string>> = {
  schedule: "write it as cron: '0 3 * * *'",
  expression: "write it as cron: '0 3 * * *'",
  pattern: "write it as cron: '0 3 * * *'",
  interval: "write it as every: '5m'",
  tz: "write it as timezone: 'Europe/Berlin'",
  name: 'the key of the job is its name',
  noOverlap: 'write overlap: skip, which is the default',
  distributed: 'leave it out: every job is',
  distributedLease: 'write lease: { ttl: 30s }',
  logger: 'leave it out: the log is that of the command',
  unref: 'leave it out: the process is there for its jobs',
  maxRuntime: 'write lease: { maxHold: 2h }',
  timeout: 'write lease: { maxHold: 2h }',
  processor: "write it as handler: './jobs/pay.js#charge'",
  run: "write it as handler: './jobs/pay.js#charge'",
};

/** For a key that is not known: the nearest that is, or where it belongs. `below` has the keys of maps among those. */
/** Of the one manager of all jobs. */
const OF_ALL: ReadonlySet<string> = new Set(['refreshRatio', 'safetyMargin', 'driftRate', 'activateTimeout']);

export function hintFor(key: string, known: readonly string[], below: ReadonlyMap<string, readonly string[]>): string {
  if (key === '<<') return 'merge keys are not read; use defaults, or an alias for the whole value';
  if (key === 'url') return 'the address is written as redis or postgres';
  if (known.includes('handler') && Object.hasOwn(OF_JOBS, key)) return OF_JOBS[key] as string;
  if (key === 'rejectUnauthorized')
    return 'certificates are always checked; name the authority in ca, or the name in servername';
  if (key === 'tls' && known.includes('history')) return 'it belongs into redis: { url: …, tls: { … } }';
  if (['sentinels', 'cluster'].includes(key) && known.includes('history'))
    return `it belongs into redis: { ${key}: [ … ] }`;
  // Among these are those of a lease that is not that of `defaults`.
  if (OF_ALL.has(key) && known.includes('ttl'))
    return `all jobs have one: write it as defaults: { lease: { ${key}: … } }`;
  if (key === 'callTimeout') return 'all jobs have one: write it as store: { callTimeout: … }';
  const home = [...below].find(([, keys]) => keys.includes(key));
  if (home !== undefined) return `it belongs into ${home[0]}: { ${key}: … }`;
  const meant = nearest(key, known);
  if (meant !== undefined) return `did you mean ${meant}?`;
  return `there are ${known.join(', ')}`;
}
