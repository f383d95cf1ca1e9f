/** What the user of a connection may do, against what the ACL of `acl.ts` would give it. */

import type { StoreRights } from '../store/survey.ts';
import { channelsOf, keysOf, LOOKING, OWNING, redisAcl, redisDiagnosisAcl, type RedisAclOptions } from './acl.ts';
import { logKey, recordKey } from './keys.ts';

/** What the store does without, a little worse. */
const DISPENSABLE: ReadonlySet<string> = new Set(['publish', 'xadd', 'client|setname']);

/** Who lacks all of these and can read records writes nothing, and is not meant to. */
const WRITING = ['hset', 'del', 'zadd', 'xadd', 'persist', 'pexpire'];

const WITHOUT_KEYS: ReadonlySet<string> = new Set([
  ...['eval', 'eval_ro', 'evalsha', 'time', 'info', 'ping', 'scan', 'role', 'publish', 'subscribe', 'unsubscribe'],
  ...['client|list', 'client|setname'],
]);

const FLUSH = ['flushall'];

/** Every question of `judgeRights`, each a command as it would be sent. */
export function questionsOf(prefix: string): readonly (readonly string[])[] {
  return [...NAMES.map((name) => commandOf(prefix, name)), FLUSH];
}

const NAMES: readonly string[] = [...new Set([...OWNING, ...LOOKING])];

/** With as much of it as its rights depend on. */
function commandOf(prefix: string, name: string): readonly string[] {
  const key = recordKey(prefix, 'doctor');
  const channel = `${prefix}:owner:doctor`;
  const words = name.split('|');
  switch (name) {
    case 'eval':
    case 'eval_ro':
    case 'evalsha':
      return [name, '', '0'];
    case 'publish':
      return [name, channel, ''];
    case 'subscribe':
      return [name, channel];
    case 'client|setname':
      return [...words, 'x'];
    case 'xadd':
      return [name, logKey(key), '*', 'x', 'x'];
    default:
      // No word more: some commands take each for a key.
      return WITHOUT_KEYS.has(name) ? words : [name, key];
  }
}

/** `may`: the answers to `questionsOf`, in its order. */
export function judgeRights(prefix: string, may: readonly boolean[], options: RedisAclOptions): StoreRights {
  const denied = new Set(NAMES.filter((_, at) => may[at] === false));
  const onlyLooks = WRITING.every((name) => denied.has(name)) && !denied.has('hmget');
  return {
    missing: missingOf(OWNING, denied, prefix).map((right) => ({
      right,
      isNeeded: !DISPENSABLE.has(right.slice(1)),
    })),
    missingToLook: missingOf(LOOKING, denied, prefix),
    onlyLooks,
    mayFlush: may[NAMES.length] === true,
    smallest: { own: redisAcl(prefix, undefined, options), look: redisDiagnosisAcl(prefix, undefined, options) },
  };
}

/** Where everything is denied that goes by keys, or by channels, those are what is missing. */
function missingOf(needed: readonly string[], denied: ReadonlySet<string>, prefix: string): readonly string[] {
  const ofKeys = needed.filter((name) => !WITHOUT_KEYS.has(name));
  const ofChannels = needed.filter((name) => name === 'publish' || name === 'subscribe');
  const missing = new Set(needed.filter((name) => denied.has(name)).map((name) => `+${name}`));
  for (const [names, right] of [
    [ofKeys, keysOf(prefix)],
    [ofChannels, channelsOf(prefix)],
  ] as const) {
    if (names.length === 0 || !names.every((name) => denied.has(name))) continue;
    for (const name of names) missing.delete(`+${name}`);
    missing.add(right);
  }
  return [...missing];
}
