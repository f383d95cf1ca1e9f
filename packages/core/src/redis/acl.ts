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

// What a script runs is checked like what a client runs.
const SCRIPTS = [
  'eval',
  'evalsha',
  'time',
  'type',
  'exists',
  'del',
  'persist',
  'pexpire',
  'publish',
  'xadd',
  'xrevrange',
];
const HASHES = ['hget', 'hset', 'hdel', 'hmget', 'hkeys', 'hvals'];
const QUEUES = ['zadd', 'zrem', 'zrange', 'zrank', 'zscore'];
const CONNECTION = ['info', 'ping', 'subscribe', 'unsubscribe', 'scan'];
const FENCE = ['eval', 'evalsha', 'time', 'type', 'del', 'hmget', 'hset', 'persist', 'info'];
const CLUSTER = ['asking', 'cluster|info', 'cluster|slots'];

/**
 * The command that gives a user exactly the rights that a `redisStore` with this prefix needs, and takes others away. It
 * sets no password: add `>secret`, or `#` and its SHA-256. Without one of these rights something fails; which one, the
 * server says in the `StoreAuthError`, except for `publish` and `xadd` (others wait longer, the log stays empty).
 */
export function redisAcl(prefix: string, user = 'leasehold', options: RedisAclOptions = {}): string {
  checkPrefix('prefix', prefix);
  if (!/^\S+$/.test(user))
    throw new ConfigError('user', `${JSON.stringify(user)} is not the name of a user: no spaces`);
  const { fence = false, cluster = false, database = false } = options;
  const commands = new Set([
    ...[...SCRIPTS, ...HASHES, ...QUEUES, ...CONNECTION],
    ...(fence ? FENCE : []),
    ...(cluster ? CLUSTER : []),
    ...(database ? ['select'] : []),
  ]);
  const keys = [`~${prefix}:{*`, ...(fence ? [`~leasehold-fence:{${prefix}/*`] : [])];
  const rights = [...keys, `&${prefix}:owner:*`, ...[...commands].map((command) => `+${command}`)];
  return `ACL SETUSER ${user} on -@all resetkeys resetchannels ${rights.join(' ')}`;
}
