import { readFileSync } from 'node:fs';
import type { LeaseManager, LeaseManagerOptions } from '@leasehold/core';
import type { RedisSource } from '@leasehold/core/redis';
import { CliError, EXIT } from './exit.ts';

/** As redis-cli has them. */
export interface ConnectionFlags {
  readonly url?: string | undefined;
  readonly prefix?: string | undefined;
  readonly config?: string | undefined;
  readonly tls?: boolean | undefined;
  readonly cacert?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What a config file says about its store. */
export interface ConfiguredStore {
  readonly url: string;
  readonly prefix?: string | undefined;
}

/** Whom a command talks to. */
export interface Target {
  readonly source: RedisSource;
  readonly prefix: string;
  /** `redis://cache-3:6379/0`, never with a password. */
  readonly address: string;
  /** Where the address came from, unless it was on the command line. */
  readonly origin: string | undefined;
}

const DEFAULT_URL = 'redis://127.0.0.1:6379';
/** Somebody waits for the answer. */
const CONNECT_TIMEOUT = '3s';
const DEFAULT_PREFIX = 'leasehold';

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
  const url = checkedUrl(given, origin);
  if (flags.tls === true || flags.cacert !== undefined) url.protocol = 'rediss:';
  // As redis-cli does, so that the password need not be where `ps` shows it.
  if (url.password === '' && env['REDISCLI_AUTH']) url.password = encodeURIComponent(env['REDISCLI_AUTH']);
  return {
    source: flags.cacert === undefined ? url.href : withCertificate(url, flags.cacert),
    prefix: flags.prefix ?? configured?.prefix ?? DEFAULT_PREFIX,
    address: addressOf(url),
    origin,
  };
}

function chosen(
  flags: ConnectionFlags,
  env: Environment,
  configured: ConfiguredStore | undefined,
): readonly [url: string, origin: string | undefined] {
  if (flags.url !== undefined) return [flags.url, undefined];
  if (configured !== undefined) return [configured.url, flags.config];
  for (const name of ['LEASEHOLD_REDIS_URL', 'REDIS_URL']) {
    const url = env[name];
    if (url !== undefined && url !== '') return [url, name];
  }
  return [DEFAULT_URL, 'default'];
}

function checkedUrl(given: string, origin: string | undefined): URL {
  if (/^rediss?:\/\//.test(given) && URL.canParse(given)) return new URL(given);
  throw new CliError(
    EXIT.usage,
    `${origin ?? '--url'} is no address of the form redis://host:port/database or rediss://…`,
    'leasehold ls --url redis://127.0.0.1:6379',
  );
}

function databaseOf(url: URL): string {
  return url.searchParams.get('db') ?? (url.pathname.slice(1) || '0');
}

/** For people: never with a password. */
export function addressOf(url: URL): string {
  return `${url.protocol}//${url.hostname || '127.0.0.1'}:${url.port || '6379'}/${databaseOf(url)}`;
}

/** ioredis options: a certificate does not fit in an address. */
function withCertificate(url: URL, path: string): RedisSource {
  const db = databaseOf(url);
  if (!/^\d{1,9}$/.test(db)) throw new CliError(EXIT.usage, 'the database in the address must be a whole number');
  let ca: Buffer;
  try {
    ca = readFileSync(path);
  } catch (error) {
    throw new CliError(EXIT.usage, `--cacert ${path} cannot be read: ${(error as Error).message}`);
  }
  const { host, port, username, password } = {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1',
    port: Number(url.port || '6379'),
    username: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  };
  return {
    host,
    port,
    db: Number(db),
    tls: { ca },
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
  };
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
  const [{ LeaseManager }, { redisStore }] = await Promise.all([
    import('@leasehold/core'),
    import('@leasehold/core/redis'),
  ]);
  return new LeaseManager({
    ...options,
    store: redisStore(target.source, { prefix: target.prefix, connectTimeout: CONNECT_TIMEOUT }),
  });
}
