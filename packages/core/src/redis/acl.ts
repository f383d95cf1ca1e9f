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
const CONNECTION = ['info', 'ping', 'subscribe', 'unsubscribe', 'scan', 'client|setname'];
const FENCE = ['eval', 'evalsha', 'time', 'type', 'del', 'hmget', 'hset', 'persist', 'info'];
const CLUSTER = ['asking', 'cluster|info', 'cluster|slots'];

/** What reads records, logs and ticks, and lists them. */
const READING = ['eval', 'evalsha', 'time', 'type', 'exists', 'hmget', 'hvals', 'xrevrange', 'scan', 'info'];
/** What is asked beside the record. */
const EVIDENCE = ['client|list', 'client|setname', 'pttl'];
const PREVIEWS = ['getrange', 'hscan', 'sscan', 'lrange', 'zrange'];

export interface RedisDiagnosisAclOptions extends Pick<RedisAclOptions, 'cluster' | 'database'> {
  /**
   * Also CONFIG GET, for how often the append-only file is flushed and when snapshots are taken. Left out by default: it
   * shows all settings, passwords among them.
   */
  readonly config?: boolean | undefined;
}

/**
 * The command that gives a user exactly the rights with which everything of this prefix can be read and diagnosed, and
 * nothing changed, and takes others away. Of foreign keys it sees those below the prefix only. It sets no password.
 * `CLIENT LIST` and `INFO` show all clients of the server, and how it is doing.
 */
export function redisDiagnosisAcl(
  prefix: string,
  user = 'leasehold-diagnosis',
  options: RedisDiagnosisAclOptions = {},
): string {
  const { cluster = false, database = false, config = false } = options;
  const commands = [
    ...[...READING, ...EVIDENCE, ...PREVIEWS],
    ...(config ? ['config|get'] : []),
    ...(cluster ? CLUSTER : []),
    ...(database ? ['select'] : []),
  ];
  return line(prefix, user, [`~${prefix}:{*`, ...commands.map((command) => `+${command}`)]);
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
    ...[...SCRIPTS, ...HASHES, ...QUEUES, ...CONNECTION],
    ...(fence ? FENCE : []),
    ...(cluster ? CLUSTER : []),
    ...(database ? ['select'] : []),
  ]);
  const keys = [`~${prefix}:{*`, ...(fence ? [`~leasehold-fence:{${prefix}/*`] : [])];
  const rights = [...keys, `&${prefix}:owner:*`, ...[...commands].map((command) => `+${command}`)];
  return line(prefix, user, rights);
}

function line(prefix: string, user: string, rights: readonly string[]): string {
  checkPrefix('prefix', prefix);
  if (!/^\S+$/.test(user))
    throw new ConfigError('user', `${JSON.stringify(user)} is not the name of a user: no spaces`);
  return `ACL SETUSER ${user} on -@all resetkeys resetchannels ${rights.join(' ')}`;
}
