import { ConfigError } from '../errors.ts';
import { checkPrefix } from '../names.ts';

export interface RedisAclOptions {
  /** Also what a `redisFence` with its own keys needs; the commands of your fenced writes come on top. */
  readonly fence?: boolean | undefined;
  /** Also what ioredis asks the nodes of a Cluster. */
  readonly cluster?: boolean | undefined;
  /** Also the choice of a database other than 0. */
  readonly database?: boolean | undefined;
}

/** What owners run; what a script runs is checked like what a client runs. The words of an ACL, without their `+`. */
export const OWNING: readonly string[] = [
  ...['eval', 'evalsha', 'time', 'type', 'exists', 'del', 'persist', 'pexpire', 'publish', 'xadd', 'xrevrange'],
  ...['hget', 'hset', 'hdel', 'hmget', 'hkeys', 'hvals'],
  ...['zadd', 'zrem', 'zrange', 'zrank'],
  ...['info', 'ping', 'subscribe', 'unsubscribe', 'scan', 'client|setname'],
];
const FENCE = ['eval', 'evalsha', 'time', 'type', 'del', 'hmget', 'hset', 'persist', 'info'];
const CLUSTER = ['asking', 'cluster|info', 'cluster|slots'];

/** What people who look run: records, logs and ticks, and what is asked beside them, by us or by hand. */
export const LOOKING: readonly string[] = [
  ...['eval', 'eval_ro', 'evalsha', 'time', 'type', 'exists', 'hmget', 'hvals', 'xrevrange', 'scan', 'info', 'role'],
  ...['client|list', 'client|setname', 'pttl'],
  ...['getrange', 'hscan', 'sscan', 'lrange', 'zrange'],
];

export interface RedisDiagnosisAclOptions extends Pick<RedisAclOptions, 'cluster' | 'database'> {
  /**
   * Also CONFIG GET, for how often the append-only file is flushed and when snapshots are taken. Left out by default: it
   * shows all settings, passwords among them.
   */
  readonly config?: boolean | undefined;
}

/**
 * The command that gives a user exactly the rights with which everything of this prefix can be read and diagnosed, and
 * nothing changed, and takes others away; also with `redis-cli`, by the commands that `--by-hand` prints. Of foreign keys it sees those below the prefix only. It sets no password.
 * `CLIENT LIST` and `INFO` show all clients of the server, and how it is doing.
 */
export function redisDiagnosisAcl(
  prefix: string,
  user = 'leasehold-diagnosis',
  options: RedisDiagnosisAclOptions = {},
): string {
  const { cluster = false, database = false, config = false } = options;
  const commands = [
    ...LOOKING,
    ...(config ? ['config|get'] : []),
    ...(cluster ? CLUSTER : []),
    ...(database ? ['select'] : []),
  ];
  return line(prefix, user, [keysOf(prefix), ...commands.map((command) => `+${command}`)]);
}

/**
 * The command that gives a user exactly the rights that a `redisStore` with this prefix needs, and takes others away. It
 * sets no password: add `>secret`, or `#` and its SHA-256. Without one of these rights something fails; which one, the
 * server says in the `StoreAuthError`, except for `publish` and `xadd` (others wait longer, the log stays empty) and
 * `client|setname` (diagnosis cannot tell the owner's connections).
 */
export function redisAcl(prefix: string, user = 'leasehold', options: RedisAclOptions = {}): string {
  const { fence = false, cluster = false, database = false } = options;
  const commands = new Set([
    ...OWNING,
    ...(fence ? FENCE : []),
    ...(cluster ? CLUSTER : []),
    ...(database ? ['select'] : []),
  ]);
  const keys = [keysOf(prefix), ...(fence ? [`~leasehold-fence:{${prefix}/*`] : [])];
  const rights = [...keys, channelsOf(prefix), ...[...commands].map((command) => `+${command}`)];
  return line(prefix, user, rights);
}

/** All keys of a prefix. */
export function keysOf(prefix: string): string {
  return `~${prefix}:{*`;
}

/** What owners of a prefix are told by. */
export function channelsOf(prefix: string): string {
  return `&${prefix}:owner:*`;
}

function line(prefix: string, user: string, rights: readonly string[]): string {
  checkPrefix('prefix', prefix);
  if (!/^\S+$/.test(user))
    throw new ConfigError('user', `${JSON.stringify(user)} is not the name of a user: no spaces`);
  return `ACL SETUSER ${user} on -@all resetkeys resetchannels ${rights.join(' ')}`;
}
