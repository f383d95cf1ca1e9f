import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import type { LeaseManager, LeaseManagerOptions } from '@leasehold/core';
import type { NodeSettings, RedisSettings, TlsSettings } from './config/settings.ts';
import { serverOfUrl } from './config/redis-url.ts';
import { CliError, EXIT } from './exit.ts';

/** As redis-cli has them. */
export interface ConnectionFlags {
  readonly url?: string | undefined;
  readonly prefix?: string | undefined;
  readonly config?: string | undefined;
  readonly tls?: boolean | undefined;
  readonly cacert?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly sni?: string | undefined;
  readonly cluster?: boolean | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What a config file says about its store. */
export interface ConfiguredStore {
  readonly redis: RedisSettings;
  readonly prefix?: string | undefined;
  readonly endpoints?: readonly NodeSettings[] | undefined;
  readonly quarantine?: boolean | undefined;
  readonly longestTtlMs?: number | undefined;
}

/** Whom a command talks to. */
export interface Target {
  readonly redis: RedisSettings;
  readonly prefix: string;
  /** Further servers that diagnosis asks, by the same credentials: so only those that the config has beside the store itself. */
  readonly endpoints: readonly NodeSettings[];
  /** Of the config: acquisitions wait out what a restarted server may have lost. */
  readonly quarantine?: boolean | undefined;
  /** Of the jobs of the config, in milliseconds: for so long may be trusted what a store has lost. */
  readonly longestTtlMs?: number | undefined;
  /** `redis://cache-3:6379/0`, never with a password. */
  readonly address: string;
  /** Where the address came from, unless it was on the command line. */
  readonly origin: string | undefined;
}

const DEFAULT_URL = 'redis://127.0.0.1:6379';
const URL_VARIABLES = ['LEASEHOLD_REDIS_URL', 'REDIS_URL'] as const;
/** Somebody waits for the answer. */
const CONNECT_TIMEOUT = '3s';
export const DEFAULT_PREFIX = 'leasehold';

/**
 * The flags first, then the config file if one is named, then LEASEHOLD_REDIS_URL, then REDIS_URL. Throws `CliError`,
 * exit 2, for what is no address; its text does not repeat the address, which may hold a password.
 */
export async function findTarget(
  flags: ConnectionFlags,
  env: Environment,
  readConfig: (path: string) => Promise<ConfiguredStore>,
): Promise<Target> {
  const configured = flags.config === undefined ? undefined : await readConfig(flags.config);
  const [given, origin] = chosen(flags, env, configured);
  const redis = withFlags(typeof given === 'string' ? checkedUrl(given, origin).href : given, flags, env);
  return {
    redis,
    prefix: flags.prefix ?? configured?.prefix ?? DEFAULT_PREFIX,
    endpoints: flags.url === undefined ? (configured?.endpoints ?? []) : [],
    quarantine: configured?.quarantine,
    longestTtlMs: configured?.longestTtlMs,
    address: addressOf(redis),
    origin,
  };
}

function chosen(
  flags: ConnectionFlags,
  env: Environment,
  configured: ConfiguredStore | undefined,
): readonly [redis: RedisSettings, origin: string | undefined] {
  if (flags.url !== undefined) return [flags.url, undefined];
  if (configured !== undefined) return [configured.redis, flags.config];
  for (const name of URL_VARIABLES) {
    const url = env[name];
    if (url !== undefined && url !== '') return [url, name];
  }
  return [DEFAULT_URL, 'default'];
}

/**
 * Whether somebody has said which store is meant. REDIS_URL says it of no program in particular: a config in the folder,
 * which mostly reads it, knows the prefix as well.
 */
export function isStoreNamed({ url, config }: ConnectionFlags, env: Environment): boolean {
  return url !== undefined || config !== undefined || (env[URL_VARIABLES[0]] ?? '') !== '';
}

function checkedUrl(given: string, origin: string | undefined): URL {
  if (/^rediss?:\/\//.test(given) && URL.canParse(given)) return new URL(given);
  throw new CliError(
    EXIT.usage,
    `${origin ?? '--url'} is no address of the form redis://host:port/database or rediss://…`,
    'leasehold ls --url redis://127.0.0.1:6379',
  );
}

/** What the flags make of an address that came from wherever. */
function withFlags(given: RedisSettings, flags: ConnectionFlags, env: Environment): RedisSettings {
  // As redis-cli does, so that the password need not be where `ps` shows it.
  const password = env['REDISCLI_AUTH'] || undefined;
  const { tls, cacert, cert, key, sni, cluster } = flags;
  const files = [cacert, cert, key, sni].some((flag) => flag !== undefined);
  if (typeof given === 'string') {
    const url = new URL(given);
    if (tls === true || files) url.protocol = 'rediss:';
    if (url.password === '' && password !== undefined) url.password = encodeURIComponent(password);
    if (!files && cluster !== true) return url.href;
    if (!/^\d{0,9}$/.test(databaseOf(url))) {
      throw new CliError(EXIT.usage, 'the database in the address must be a whole number');
    }
    return withFlags(serverOfUrl(url), flags, {});
  }
  const wanted = files || tls === true ? tlsOf(given.tls, flags) : given.tls;
  const its = { ...given, password: given.password ?? password, tls: wanted };
  if (cluster !== true || its.kind === 'cluster') return its;
  if (its.kind === 'sentinel') throw new CliError(EXIT.usage, '--cluster does not go with the sentinels of the config');
  const { host, port, username, db } = its;
  if (db !== 0) throw new CliError(EXIT.usage, `--cluster does not go with database ${db}: a Cluster has 0 alone`);
  return { kind: 'cluster', nodes: [{ host, port }], username, password: its.password, tls: wanted };
}

function tlsOf(configured: TlsSettings | undefined, { cacert, cert, key, sni }: ConnectionFlags): TlsSettings {
  if ((cert === undefined) !== (key === undefined)) {
    throw new CliError(EXIT.usage, `${cert === undefined ? '--key needs --cert' : '--cert needs --key'} beside it`);
  }
  return {
    ca: fileOf('--cacert', cacert) ?? configured?.ca,
    cert: fileOf('--cert', cert) ?? configured?.cert,
    key: fileOf('--key', key) ?? configured?.key,
    servername: sni ?? configured?.servername,
  };
}

function fileOf(flag: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new CliError(EXIT.usage, `${flag} ${path} cannot be read: ${(error as Error).message}`);
  }
  return resolve(path);
}

function databaseOf(url: URL): string {
  return url.searchParams.get('db') ?? (url.pathname.slice(1) || '0');
}

/** For people: never with a password. */
export function addressOf(redis: RedisSettings): string {
  if (typeof redis === 'string') {
    const url = new URL(redis);
    return `${url.protocol}//${url.hostname || '127.0.0.1'}:${url.port || '6379'}/${databaseOf(url)}`;
  }
  const tls = redis.tls === undefined ? '' : 's';
  if (redis.kind === 'server') return `redis${tls}://${hostOf(redis)}/${redis.db}`;
  const nodes = redis.nodes.map(hostOf).join(',');
  return redis.kind === 'cluster' ? `redis${tls} cluster ${nodes}` : `redis${tls} ${redis.name} by sentinel ${nodes}`;
}

/** `127.0.0.1:6379`, `[::1]:6379`. */
export function hostOf({ host, port }: NodeSettings): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** One line for people: whom we talk to, in which namespace, and who said so. */
export function describeTarget({ address, prefix, origin }: Target): string {
  return [address, `prefix ${prefix}`, ...(origin === undefined ? [] : [origin])].join(' · ');
}

/** Connects on first use. Loads the client only now: help and completion do without. */
export async function openManager(
  target: Target,
  options: Omit<LeaseManagerOptions, 'store'> = {},
): Promise<LeaseManager> {
  const [{ LeaseManager }, { redisStore }, { sourceOf }] = await Promise.all([
    import('@leasehold/core'),
    import('@leasehold/core/redis'),
    import('./redis.ts'),
  ]);
  return new LeaseManager({
    ...(target.quarantine === true && { quarantine: true }),
    ...(target.longestTtlMs !== undefined && { ttl: target.longestTtlMs }),
    ...options,
    store: redisStore(sourceOf(target.redis), {
      prefix: target.prefix,
      endpoints: target.endpoints.map(hostOf),
      connectTimeout: CONNECT_TIMEOUT,
    }),
  });
}
