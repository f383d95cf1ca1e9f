import { z } from 'zod';

import { Fault, field, optional, required } from './field.ts';
import { redis } from './redis-schema.ts';
import { parseTemplate, type ResourceTemplate } from './template.ts';
import {
  cronExpression,
  duration,
  fenceReference,
  flag,
  handler,
  number,
  oneOf,
  queueName,
  queuePrefix,
  faultOfResource,
  resource,
  secondsMeant,
  ttl,
  whole,
  zone,
} from './values.ts';

const MAX_INTERVAL_MS = 365 * 86_400_000;

const ttlRule = 'Longer than the longest pause to be survived, not than the run. 100 ms to 24 h.';
const aboutTtl = `How long a lease lasts without being extended: for so long a killed process keeps the resource from others. ${ttlRule}`;
const aboutTtlOfQueue = `How long a lease lasts without being extended: for so long a killed process keeps the resource from other jobs. The job that it had begun comes back when BullMQ finds it, after up to \`lockDuration\` + \`stalledInterval\`. ${ttlRule}`;
const aboutMaxHold = 'A run that is longer is cancelled, and its lease no longer extended.';
const aboutActivate =
  '`before`: every fence is activated before the handler begins. `on-write`: not at all; only for handlers whose reads all happen inside the write.';

const maxHold = duration((ms) => ms >= 1, 'must be at least 1 ms');

/** `startingDeadline` of the adapter for cron. */
const startingDeadline = duration(
  (ms) => ms >= 1000 && ms < 1e15,
  'must be at least 1 s, because timers are late by themselves',
  secondsMeant,
);

/** What jobs may leave to `defaults`. */
const ofEveryTick = {
  timezone: zone(),
  startingDeadline,
  overlap: oneOf('skip', 'allow'),
  catchUp: oneOf('none', 'latest'),
  retry: whole(0, 100),
};

const aboutTicks = {
  timezone: 'The time zone of the schedule.',
  startingDeadline: 'A tick may begin so much later than the schedule says, and no later. At least 1 s.',
  overlap:
    '`skip`: a tick that finds a run of this job going on, in any process, begins none. `allow`: runs of one job go on side by side, each under a lease of its own.',
  catchUp:
    '`latest`: of the ticks that no process ran, the newest is run late, within `startingDeadline`. `none`: they are lost.',
  retry:
    'How often a tick may be run again whose run died, lost its lease, was cancelled or failed, within `startingDeadline`: at least once instead of at most once. 0 to 100.',
};

/** Of the one manager that all jobs share, so no job has its own. Ranges and rules are core's: `checkTiming`. */
const timing = {
  refreshRatio: optional(number(), {
    about: 'A lease is extended after `ttl` / `refreshRatio`. 2 to 100, advised 3 to 5.',
    default: 3,
  }),
  safetyMargin: optional(duration(), {
    about: 'How much earlier than the store an owner stops believing in its lease. At least 10 ms.',
    otherwise: '`ttl` / 20, 20 ms to 500 ms',
  }),
  driftRate: optional(number(), {
    about: 'By how much the clocks of two machines may differ in speed. 0 to 0.2.',
    default: 0.01,
  }),
  activateTimeout: optional(duration(), {
    about: 'For each activation of a fence. At least 5 ms.',
    otherwise: '`ttl`, at most 10 s',
  }),
};

export const defaultsSchema = z.strictObject({
  timezone: optional(ofEveryTick.timezone, {
    about: 'The time zone of schedules.',
    default: 'UTC',
    examples: ['Europe/Berlin'],
  }),
  startingDeadline: optional(startingDeadline, { about: aboutTicks.startingDeadline, default: '5m' }),
  overlap: optional(ofEveryTick.overlap, { about: aboutTicks.overlap, default: 'skip' }),
  catchUp: optional(ofEveryTick.catchUp, { about: aboutTicks.catchUp, default: 'none' }),
  retry: optional(ofEveryTick.retry, { about: aboutTicks.retry, default: 0 }),
  lease: optional(
    z.strictObject({
      ttl: optional(ttl(), { about: aboutTtl, default: '30s', examples: ['10s'] }),
      maxHold: optional(maxHold, { about: aboutMaxHold, otherwise: 'none', examples: ['2h'] }),
      activate: optional(oneOf('before', 'on-write'), { about: aboutActivate, default: 'before' }),
      ...timing,
    }),
    { about: 'Of the leases of all jobs.' },
  ),
});

const commonLease = {
  ttl: optional(ttl(), { about: aboutTtl, otherwise: '`defaults.lease.ttl`', examples: ['10s'] }),
  maxHold: optional(maxHold, { about: aboutMaxHold, otherwise: '`defaults.lease.maxHold`', examples: ['2h'] }),
  fences: optional(z.array(fenceReference()).readonly(), {
    about: 'The fences that the handler writes through, by their names in `fences`. Activated before it begins.',
    examples: [['ledger']],
  }),
  activate: optional(oneOf('before', 'on-write'), { about: aboutActivate, otherwise: '`defaults.lease.activate`' }),
};

const leaseSchema = z.strictObject({
  resource: optional(resource(), {
    about:
      'What must have one owner. Jobs that name the same resource take turns. Ticks are remembered for a resource and a job: another resource is a new beginning.',
    otherwise: 'the name of the job',
  }),
  ...commonLease,
});

const common = {
  handler: required(handler(), {
    about:
      'The file of the code, relative to that of the config, and after a `#` what it exports (without: its default export). TypeScript needs Node 22.18 or a loader such as tsx.',
    examples: ['./jobs/report.js', './jobs/pay.js#charge'],
  }),
  isolate: optional(oneOf('none', 'thread', 'process'), {
    about:
      'Where the handler runs. A `thread` or `process` of its own is ended when it ignores its signal for 2 s; `none` is the thread of the command.',
    default: 'none',
  }),
};

const manual = optional(oneOf('lease', 'reject', 'bypass'), {
  about:
    'What a run that somebody asks for does. `lease`: it takes the lease, and is refused while another run has it. `reject`: it is always refused. `bypass`: it runs without a lease, beside whatever runs.',
  default: 'lease',
});

// Left out of the options of `leasedCron`: `name`, which is the key; `logger` and `unref`, which are the command's; `noOverlap`, which is
// `overlap: skip`; and `distributedLease`, which is `lease.ttl`.
export const cronJob = z
  .strictObject({
    cron: required(cronExpression(), {
      about: 'The schedule: minute, hour, day of the month, month, day of the week; with six fields, seconds first.',
      examples: ['0 3 * * *', '*/15 * * * *'],
    }),
    ...common,
    timezone: optional(zone(), {
      about: aboutTicks.timezone,
      otherwise: '`defaults.timezone`',
      examples: ['Europe/Berlin'],
    }),
    timeZone: optional(zone(), { about: 'Another spelling of `timezone`.' }),
    startingDeadline: optional(startingDeadline, {
      about: aboutTicks.startingDeadline,
      otherwise: '`defaults.startingDeadline`',
    }),
    overlap: optional(ofEveryTick.overlap, { about: aboutTicks.overlap, otherwise: '`defaults.overlap`' }),
    catchUp: optional(ofEveryTick.catchUp, { about: aboutTicks.catchUp, otherwise: '`defaults.catchUp`' }),
    retry: optional(ofEveryTick.retry, { about: aboutTicks.retry, otherwise: '`defaults.retry`' }),
    maxRandomDelay: optional(
      duration((ms) => ms < 2 ** 31, 'must be less than 24 d'),
      {
        about:
          'Runs begin up to so much later than their tick, at random, with the lease held. At most `startingDeadline`.',
        default: '0s',
      },
    ),
    maxExecutions: optional(whole(1), {
      about:
        'After so many ticks of this process it schedules the job no more, also if they ran elsewhere. Other processes, and this one once it is started again, count for themselves.',
      otherwise: 'none',
    }),
    missedExecutionTolerance: optional(
      duration((ms) => ms < Infinity, 'must not be Infinity'),
      {
        about: 'A timer that fires so much late is told of as a missed tick. What is still run is up to `catchUp`.',
        default: '1s',
      },
    ),
    suppressMissedWarning: optional(flag(), { about: 'Missed ticks are not logged.', default: false }),
    manual,
    lease: optional(leaseSchema, { about: 'The lease that runs are under.' }),
  })
  .meta({ title: 'A cron job', description: 'Runs once for each tick of a schedule, in one of all processes.' });

export const intervalJob = z
  .strictObject({
    every: required(
      duration((ms) => ms >= 1000 && ms <= MAX_INTERVAL_MS, 'must be 1 s to 365 d', secondsMeant),
      {
        about: 'From the beginning of one run to that of the next, over all processes. 1 s to 365 d.',
        examples: ['5m'],
      },
    ),
    ...common,
    manual,
    lease: optional(leaseSchema, { about: 'The lease that runs are under.' }),
  })
  .meta({ title: 'An interval job', description: 'Runs again and again, in one of all processes at a time.' });

const keep = z.strictObject({
  count: optional(whole(0), { about: 'At most so many.', otherwise: 'no limit' }),
  age: optional(
    duration((ms) => ms < Infinity, 'must not be Infinity'),
    { about: 'At most so long, in whole seconds.', otherwise: 'no limit' },
  ),
});

/** By the rule of `LeasedWorker`, which is not loaded to read a config. */
function faultOfLeftover(text: string): Fault | undefined {
  const [word] = /(?<![\p{L}\p{N}])(?:undefined|null|NaN)(?![\p{L}\p{N}])|\[object [^\]]*\]/u.exec(text) ?? [];
  if (word === undefined) return undefined;
  return new Fault(`must not have ${word} in it, which is what becomes of a value that is missing`, {
    plain: 'must not have in it what becomes of a value that is missing',
  });
}

/** A name with places for what a job carries. */
function template() {
  return field<ResourceTemplate, string>({ type: 'string', minLength: 1 }, (value) => {
    if (typeof value !== 'string') return new Fault("must be a name, such as 'customer:{data.customerId}'");
    const parsed = parseTemplate(value);
    // What the fields come to is seen with each job; the text around them is known now.
    if ('resourceOf' in parsed) {
      const text = value.replaceAll(/\{[^}]*\}/g, '0');
      return faultOfResource(text) ?? faultOfLeftover(text) ?? parsed;
    }
    return new Fault(`${parsed.message} (character ${parsed.column})`, {
      remedy: parsed.remedy,
      plain: 'cannot be read as a template',
      asIs: true,
    });
  });
}

// Left out of the options of `LeasedWorker`: `lease.manager` and `autorun`, which are the command's; `lease.grace`, which is `shutdown.grace`;
// `skipLockRenewal`, `skipStalledCheck` and `lockRenewTime`, with which jobs are taken from a worker that does them; `useWorkerThreads`, which is
// `isolate`; `backoffStrategy` and `telemetry`, which are code; and what only tunes how BullMQ waits (`drainDelay`, `runRetryDelay`).
export const queueJob = z
  .strictObject({
    queue: required(queueName(), {
      about: 'The queue of BullMQ whose jobs the handler takes.',
      examples: ['payments'],
    }),
    ...common,
    concurrency: optional(whole(1, 10_000), {
      about: 'How many jobs run at a time in one process. 1 to 10000.',
      default: 1,
    }),
    connection: optional(redis(), { about: 'The Redis of the queue, as in `store`.', otherwise: '`store.redis`' }),
    prefix: optional(queuePrefix(), { about: "BullMQ's prefix of the queue.", default: 'bull' }),
    limiter: optional(
      z.strictObject({
        max: required(whole(1, 1_000_000), { about: 'How many jobs.' }),
        duration: required(
          duration((ms) => ms >= 1 && ms < 2 ** 31, 'must be 1 ms to 24 d'),
          { about: 'Within which time.' },
        ),
      }),
      { about: 'How many jobs may begin within a time, over all processes.' },
    ),
    lockDuration: optional(
      duration((ms) => ms >= 1000 && ms < 2 ** 31, 'must be 1 s to 24 d'),
      {
        about:
          "How long BullMQ's own lock of a job lasts without being renewed. A job of a killed process comes back after up to this and `stalledInterval`.",
        default: '30s',
      },
    ),
    stalledInterval: optional(
      duration((ms) => ms >= 1 && ms < 2 ** 31, 'must be 1 ms to 24 d'),
      { about: 'How often BullMQ looks for jobs whose process is gone.', default: '30s' },
    ),
    maxStalledCount: optional(whole(0), {
      about: 'How often a job is begun again because its process was gone, before it fails.',
      default: 1,
    }),
    removeOnComplete: optional(keep, { about: 'Which completed jobs BullMQ keeps.', otherwise: 'all' }),
    removeOnFail: optional(keep, { about: 'Which failed jobs BullMQ keeps.', otherwise: 'all' }),
    lease: required(
      z.strictObject({
        resource: required(template(), {
          about:
            'What one job at a time is to act on. `{data.customerId}` stands for a field of the job, `{name}` and `{id}` for its own; a job without the field fails. A name without braces is one job at a time in the whole queue.',
          examples: ['customer:{data.customerId}'],
        }),
        scope: optional(oneOf('job', 'worker'), {
          about:
            '`job`: a lease for each job. `worker`: one lease for all jobs of a process; of all processes one takes jobs.',
          default: 'job',
        }),
        whenBusy: optional(oneOf('delay', 'hold', 'skip', 'fail'), {
          about:
            'A job whose resource is busy: `delay`: goes back and comes again when the resource is free. `hold`: keeps its slot and waits. `skip`: is completed as skipped. `fail`: fails, which uses an attempt.',
          default: 'delay',
        }),
        whenLost: optional(oneOf('requeue', 'retry', 'fail'), {
          about:
            'A job whose lease was lost: `requeue`: runs again without using an attempt, three times. `retry`: fails, which uses an attempt. `fail`: fails for good.',
          default: 'requeue',
        }),
        abandonAfter: optional(duration(), {
          otherwise: 'never',
          about:
            'How long a handler may ignore its signal before its slot is given to another job. Its lease is left to run out.',
        }),
        ...commonLease,
        ttl: optional(ttl(), { about: aboutTtlOfQueue, otherwise: '`defaults.lease.ttl`', examples: ['10s'] }),
      }),
      { about: 'The lease that jobs are under.' },
    ),
  })
  .meta({ title: 'A queue job', description: 'Takes the jobs of a queue of BullMQ, each under a lease.' });
