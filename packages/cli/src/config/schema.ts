import { z } from 'zod';

import { field, Fault, optional, required } from './field.ts';
import { cronJob, defaultsSchema, intervalJob, queueJob } from './job-schema.ts';
import { node, redis } from './redis-schema.ts';
import { duration, flag, listen, oneOf, postgresUrl, prefix, schemaName } from './values.ts';

// The rule of the fences.
const fenceTimeout = duration((ms) => ms >= 1 && ms < 2 ** 31 - 2000, 'must be 1 ms to 24 d');

export const postgresFence = z
  .strictObject({
    postgres: required(postgresUrl(), { about: 'The database.', examples: ['${DATABASE_URL}'] }),
    schema: optional(schemaName(), { about: 'Where the tables of the fence are.', default: 'leasehold' }),
    timeout: optional(fenceTimeout, { about: 'Within which a commit settles.', default: '5s' }),
    idleTimeout: optional(fenceTimeout, {
      about: 'How long an owner may stand still inside its transaction before PostgreSQL ends its session.',
      default: '5s',
    }),
    lockTimeout: optional(fenceTimeout, {
      about: 'How long an activation waits for the transaction of an earlier owner. More than `idleTimeout`.',
      otherwise: '`idleTimeout` + 1 s',
    }),
    isolation: optional(oneOf('read committed', 'repeatable read', 'serializable'), {
      about: 'Of the transactions of the fence.',
      default: 'read committed',
    }),
  })
  .meta({
    title: 'A fence in PostgreSQL',
    description: 'Refuses late writes to a database of PostgreSQL 13 or later.',
  });

export const redisFence = z
  .strictObject({
    redis: required(redis(), {
      about: 'The Redis that the data is in, as in `store`.',
      examples: ['${DATA_REDIS_URL}'],
    }),
    timeout: optional(fenceTimeout, { about: 'Within which every call settles.', default: '5s' }),
  })
  .meta({ title: 'A fence in Redis', description: 'Refuses late writes to a Redis.' });

const version = field<1, 1>({ const: 1 }, (value) =>
  value === 1 || value === '1' ? 1 : new Fault('must be 1, the version of this format', { remedy: 'write version: 1' }),
);

/** Of names that code uses: `fences.ledger`. */
export const FENCE_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
/** `checkJobName` of core. */
export const JOB_NAME = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;

const sections = {
  version: required(version, { about: 'Of this format: 1.' }),
  store: required(
    z.strictObject({
      redis: required(redis(), {
        about:
          'The Redis that leases are in, 7.0 or later, or a Valkey 7.2 or later: a URL (`rediss://` for TLS), or a map with certificates, sentinels or the nodes of a Cluster.',
        examples: ['${REDIS_URL:-redis://127.0.0.1:6379}'],
      }),
      prefix: optional(prefix(), {
        about: 'The first part of every key. Applications that share a Redis have one each.',
        default: 'leasehold',
        examples: ['shop'],
      }),
      endpoints: optional(z.array(node(6379)).readonly(), {
        about:
          'Servers that diagnosis asks as well, as `host:port` or `{ host, port }`, with user, password and TLS of `redis`: those that no server names, such as a primary that was cut off.',
        otherwise: 'none',
        examples: [['redis-1:6379', 'redis-2:6379']],
      }),
      connectTimeout: optional(
        duration((ms) => ms >= 1 && ms <= 3_600_000, 'must be 1 ms to 1 h'),
        { about: 'How long calls wait for the first connection. 1 ms to 1 h.', default: '5s' },
      ),
      callTimeout: optional(duration(), {
        about: 'For each call to the store. At least 5 ms; twice that must fit between an extension and its deadline.',
        otherwise: 'a third of that time, at most 2 s',
      }),
      history: optional(oneOf('exceptions', 'all'), {
        about: 'What the log of a resource keeps: the last 16 exceptional events, or the last 64 of all kinds.',
        default: 'exceptions',
      }),
      quarantine: optional(flag(), {
        about:
          'Waits out a server that is younger than the ttl, because what it lost in a restart may still be trusted.',
        default: false,
      }),
    }),
    { about: 'Where leases are.' },
  ),
  server: optional(
    z.strictObject({
      listen: required(listen(), {
        about: 'The port, or address and port, for `/livez`, `/readyz` and `/metrics`.',
        examples: [':9464', '127.0.0.1:9464'],
      }),
    }),
    { about: 'The HTTP server for probes and metrics. Left out: none.' },
  ),
  shutdown: optional(
    z.strictObject({
      grace: optional(
        duration((ms) => ms <= 86_400_000, 'must be at most 24 h'),
        {
          about:
            'How long runs may go on after SIGTERM before they are aborted. Give the container more time than this.',
          default: '10s',
        },
      ),
      exitOnAbandon: optional(flag(), {
        about:
          'Whether the process shuts down and ends with 1, so that it is started anew, when a handler goes on for 5 s (or `lease.abandonAfter`) after its signal has aborted.',
        default: false,
      }),
    }),
    { about: 'How the process ends.' },
  ),
  defaults: optional(defaultsSchema, { about: 'What jobs that do not say otherwise have.' }),
};

const aboutFences =
  'What refuses the writes of those that lost their lease. Each has a name, which handlers find it by: `fences.ledger`.';
const aboutJobs =
  'By name. A name is the same in every process and stays: the store remembers the ticks of a job by it.';

/** With fences and jobs that are looked at one by one. */
export const outerSchema = z.strictObject({
  ...sections,
  fences: optional(z.record(z.string(), z.unknown()), { about: aboutFences }),
  jobs: required(z.record(z.string(), z.unknown()), { about: aboutJobs }),
});

/** The whole config. What a file is checked by is this in parts, so that one fault hides no other. */
export const configSchema = z
  .strictObject({
    version: sections.version,
    store: sections.store,
    fences: optional(z.record(z.string().regex(FENCE_NAME), z.union([postgresFence, redisFence])), {
      about: aboutFences,
    }),
    server: sections.server,
    shutdown: sections.shutdown,
    defaults: sections.defaults,
    jobs: required(z.record(z.string().regex(JOB_NAME), z.union([cronJob, queueJob, intervalJob])), {
      about: aboutJobs,
    }),
  })
  .meta({ title: 'Leasehold', description: 'Jobs that run under a lease.' });
