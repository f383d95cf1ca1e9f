/**
 * The only place that builds keys. All keys of a resource share the hash tag `{<encoded resource>}`, so they are in one
 * slot of a Cluster whatever the names are.
 */

// What would end or begin a hash tag, our own escape character, and what is awkward on a command line.
// oxlint-disable-next-line no-control-regex -- control characters are escaped, too
const ESCAPED = /[%{}\u0000-\u0020"'\\\u007f]/g;
// oxlint-disable-next-line no-control-regex -- as above, without the state of a global expression
const NEEDS_ESCAPE = /[%{}\u0000-\u0020"'\\\u007f]/;

/** Injective: no two names give the same text, and no text contains a brace. Usual names stay as they are. */
export function encodeName(name: string): string {
  if (!NEEDS_ESCAPE.test(name)) return name;
  return name.replace(ESCAPED, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** The name that `encodeName` was given. */
export function decodeName(encoded: string): string {
  return encoded.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** The record of a resource; the base of its other keys. */
export function recordKey(prefix: string, resource: string): string {
  return `${prefix}:{${encodeName(resource)}}`;
}

/** The resource that a record key of this prefix belongs to, or undefined if it is not one. */
export function resourceOf(prefix: string, key: string): string | undefined {
  const head = `${prefix}:{`;
  if (!key.startsWith(head) || key.indexOf('}') !== key.length - 1) return undefined;
  return decodeName(key.slice(head.length, -1));
}

/** Waiters: a sorted set, leaseId by arrival. */
export const queueKey = (record: string): string => `${record}:q`;
/** The waiters' channels and how long they count as alive: a hash by leaseId. */
export const waitersKey = (record: string): string => `${record}:w`;
/** Parked processes: a hash by channel. */
export const parkedKey = (record: string): string => `${record}:p`;
/** Exceptional events: a stream. */
export const logKey = (record: string): string => `${record}:log`;
/** The last tick that a job has claimed: a hash. */
export const tickKey = (record: string, job: string): string => `${record}:tick:${encodeName(job)}`;

/** All keys of a resource without ticks, its record first. */
export function keysOfResource(prefix: string, resource: string): readonly string[] {
  const record = recordKey(prefix, resource);
  return [record, queueKey(record), waitersKey(record), parkedKey(record), logKey(record)];
}

/** Where a Redis fence keeps the highest grant of a qualified name. */
export const fenceKey = (qualified: string): string => `leasehold-fence:{${encodeName(qualified)}}`;

/**
 * The beginning of a call that may touch all of a resource: the script, the number of its keys, and the keys in the order
 * that every such script has them, the tick of `job` last if there is one.
 */
export function callOnResource(sha: string, record: string, job: string | undefined): string[] {
  const keys = [record, queueKey(record), waitersKey(record), parkedKey(record), logKey(record)];
  if (job !== undefined) keys.push(tickKey(record, job));
  return [sha, String(keys.length), ...keys];
}
