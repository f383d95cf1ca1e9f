import { z } from 'zod';

import { Fault, field, optional, required } from './field.ts';
import type { NodeSettings } from './settings.ts';
import { faultOfRedisUrl, flag, redisUrl, VARIABLE, whole } from './values.ts';

/** `'host'`, `'host:port'` or `{ host, port }`. */
export function node(defaultPort: number): z.ZodType<NodeSettings, string | { host: string; port?: number }> {
  const text = { type: 'string', pattern: `^[^/@\\s]+$|${VARIABLE}` };
  const map = {
    type: 'object',
    properties: { host: { type: 'string' }, port: { type: 'integer', minimum: 1, maximum: 65_535 } },
    required: ['host'],
    additionalProperties: false,
  };
  return field<NodeSettings, string | { host: string; port?: number }>({ anyOf: [text, map] }, (value) => {
    const found = typeof value === 'string' ? nodeOfText(value, defaultPort) : nodeOfMap(value, defaultPort);
    const rule = `must be a host and a port: 'redis-1:${defaultPort}' or { host: redis-1, port: ${defaultPort} }`;
    // Whoever writes a URL here may have written a password.
    return found ?? new Fault(rule, { secret: true });
  });
}

function nodeOfText(text: string, defaultPort: number): NodeSettings | undefined {
  const [, v6, name, port] = /^(?:\[([\da-f:.]+)\]|([^:/@\s[\]]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = v6 ?? name;
  return host === undefined ? undefined : nodeOfMap({ host, port: port ?? defaultPort }, defaultPort);
}

function nodeOfMap(value: unknown, defaultPort: number): NodeSettings | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { host, port = defaultPort, ...others } = value as Readonly<Record<string, unknown>>;
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : port;
  const isPort = typeof number === 'number' && Number.isInteger(number) && number >= 1 && number <= 65_535;
  if (typeof host !== 'string' || !/^[^/@\s]+$/.test(host) || !isPort || Object.keys(others).length > 0)
    return undefined;
  return { host, port: number };
}

/** What is in no message. */
function secret(): z.ZodType<string, string> {
  return field<string, string>({ type: 'string' }, (value) =>
    typeof value === 'string' ? value : new Fault('must be a text (its value is not shown)', { secret: true }),
  );
}

function name(): z.ZodType<string, string> {
  return field<string, string>({ type: 'string', minLength: 1 }, (value) =>
    typeof value === 'string' && value !== '' ? value : new Fault('must be a text that is not empty'),
  );
}

function pem(): z.ZodType<string, string> {
  return field<string, string>({ type: 'string', minLength: 1 }, (value) =>
    typeof value === 'string' && value !== ''
      ? value
      : new Fault('must be a file, or the PEM itself', { secret: true }),
  );
}

const tls = optional(
  z.strictObject({
    ca: optional(pem(), {
      about: 'The authority to trust: a file (PEM), relative to that of the config, or `${VAR}` with the PEM itself.',
      otherwise: 'those of Node.js',
      examples: ['./certs/ca.pem', '${REDIS_CA}'],
    }),
    cert: optional(pem(), { about: 'Our own certificate, for servers that ask for one. As `ca`.', otherwise: 'none' }),
    key: optional(pem(), { about: 'The key of `cert`. As `ca`.', otherwise: 'none' }),
    servername: optional(name(), {
      about: 'The name that the certificate of the server must have (SNI).',
      otherwise: 'the host',
    }),
  }),
  { about: 'Speaks TLS, and always checks the certificate. `{}`: with the authorities of Node.js.', otherwise: 'none' },
);

const access = {
  username: optional(name(), { about: 'The user of the ACL.', otherwise: '`default`' }),
  password: optional(secret(), {
    about: 'Only from the environment. An empty one is none.',
    otherwise: 'none',
    examples: ['${REDIS_PASSWORD}'],
  }),
};

const db = optional(whole(0, 999_999_999), { about: 'The database.', default: 0 });

const server = { ...access, db, tls };

export const redisByUrl = z
  .strictObject({
    url: required(redisUrl(), {
      about: 'As the text alone would be, with nothing after a `?`.',
      examples: ['${REDIS_URL}'],
    }),
    ...server,
  })
  .meta({ title: 'A Redis by url', description: 'A server by its URL, with what does not fit in one.' });

export const redisByHost = z
  .strictObject({
    host: required(name(), { about: 'The host.', examples: ['cache.internal'] }),
    port: optional(whole(1, 65_535), { about: 'The port.', default: 6379 }),
    ...server,
  })
  .meta({ title: 'A Redis by host', description: 'A server by its host and port.' });

export const redisBySentinel = z
  .strictObject({
    sentinels: required(z.array(node(26_379)).min(1, 'must name at least one').readonly(), {
      about: 'The sentinels, as `host:port` or `{ host, port }`.',
      examples: [['sentinel-1:26379', 'sentinel-2:26379']],
    }),
    name: required(name(), { about: 'What the sentinels call the group of servers.', examples: ['mymaster'] }),
    ...server,
    sentinelUsername: optional(name(), { about: 'The user at the sentinels.', otherwise: '`default`' }),
    sentinelPassword: optional(secret(), {
      about: 'Of the sentinels. Only from the environment.',
      otherwise: 'none',
      examples: ['${SENTINEL_PASSWORD}'],
    }),
    sentinelTls: optional(flag(), {
      about: 'Whether `tls` is for the sentinels as well.',
      otherwise: 'true if there is `tls`',
    }),
  })
  .meta({ title: 'A Redis by sentinel', description: 'The primary of a group that Sentinel watches.' });

export const redisByCluster = z
  .strictObject({
    cluster: required(z.array(node(6379)).min(1, 'must name at least one').readonly(), {
      about: 'Some of its nodes, as `host:port` or `{ host, port }`. The others are found through them.',
      examples: [['redis-1:6379', 'redis-2:6379']],
    }),
    ...access,
    tls,
  })
  .meta({ title: 'A Redis by cluster', description: 'A Redis Cluster.' });

type Written<S extends z.ZodType> = z.input<S>;
/** One of these maps. Which of them, and what is in it, is judged by `redisOf`. */
export type RedisMap = Readonly<Record<string, unknown>>;
type WrittenRedis =
  | string
  | Written<typeof redisByUrl>
  | Written<typeof redisByHost>
  | Written<typeof redisBySentinel>
  | Written<typeof redisByCluster>;

/** A URL, or a map with what does not fit in one. */
export function redis(): z.ZodType<string | RedisMap, WrittenRedis> {
  return field<string | RedisMap, WrittenRedis>({ type: 'string', pattern: `^rediss?://|${VARIABLE}` }, (value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as RedisMap)
      : (faultOfRedisUrl(value) ?? (value as string)),
  ).meta({ jsonForms: [redisByUrl, redisByHost, redisBySentinel, redisByCluster] });
}
