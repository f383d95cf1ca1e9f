/**
 * What other lock libraries leave in Redis. Nothing here is certain: most of them keep nothing but a random text. So each
 * answer says how sure it is, and nothing follows from it but where to ask.
 */

/** `redlock` stands for redlock-universal, too: both write 16 random bytes, and nothing tells them apart. */
export type ForeignLibrary =
  | 'redlock'
  | 'redis-semaphore'
  | 'shedlock'
  | 'redisson'
  | 'bullmq'
  | 'sidekiq'
  | 'bare SETNX'
  | 'leasehold (older or broken)'
  | 'unknown';

export interface ForeignLock {
  readonly library: ForeignLibrary;
  /** `certain`: nothing else is known to write this. `likely`: its shape. `possible`: others write the same. */
  readonly confidence: 'certain' | 'likely' | 'possible';
  /** What the text that stands for the owner tells, and what it does not. */
  readonly ownerString: string;
  /** What to do by hand, most useful first. Reads only. */
  readonly howToCheck: readonly string[];
  /** One sentence for a person. */
  readonly sentence: string;
}

/** What lies at a key, as `StoreEvidence.shape` has it. */
export interface ForeignShape {
  /** As the server names it: `string`, `hash`, `zset`, … */
  readonly type: string;
  /** The beginning of the value. Of a hash or a set any text that shows what is in it will do. */
  readonly preview: string;
  /** null: it never expires. */
  readonly ttlMs: number | null;
}

/**
 * Which library a key that is not ours seems to belong to. Pure; reads nothing.
 *
 * @param fields of a hash its fields, of a sorted set its members with their scores, if they were read
 */
export function recogniseForeign(
  key: string,
  shape: ForeignShape,
  fields: Readonly<Record<string, string>> = {},
): ForeignLock {
  const seen: Seen = {
    key,
    type: shape.type,
    value: shape.preview,
    fields: Object.entries(fields),
    ttlMs: shape.ttlMs,
  };
  for (const recognise of RULES) {
    const guess = recognise(seen);
    if (guess !== undefined) return told(guess, seen);
  }
  return told(UNKNOWN, seen);
}

interface Seen {
  readonly key: string;
  readonly type: string;
  readonly value: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly ttlMs: number | null;
}

type Guess = Omit<ForeignLock, 'sentence'> & { readonly what: string };

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const HEX_32 = /^[0-9a-f]{32}$/;

/** The first that recognises it counts: from what only one library writes to what many do. */
const RULES: readonly ((seen: Seen) => Guess | undefined)[] = [
  leasehold,
  shedlock,
  redisson,
  bullmq,
  sidekiq,
  redisSemaphore,
  randomHex,
  bare,
];

function leasehold({ type, fields, value }: Seen): Guess | undefined {
  const names = new Set(fields.map(([field]) => field));
  const ours = ['owner_json', 'lease_id', 'fencing_token'].filter((field) => names.has(field) || value.includes(field));
  if (type !== 'hash' || ours.length < 2) return undefined;
  return {
    library: 'leasehold (older or broken)',
    confidence: 'likely',
    what: `a record of Leasehold that is not complete, or of another version (it has ${ours.join(', ')})`,
    ownerString: 'owner is one line for people, owner_json who the process was, lease_id what ownership is compared by',
    howToCheck: [
      'compare the versions of Leasehold in all processes that use this prefix',
      'look for whoever writes to keys of this prefix by hand (MONITOR, slow log, scripts of operators)',
    ],
  };
}

/** `ADDED:2026-01-15T02:41:07.123Z@web-7`, since 4.x with `:<uuid>` behind it; key `job-lock:<environment>:<name>`. */
function shedlock({ key, type, value }: Seen): Guess | undefined {
  const added = value.match(new RegExp(`^ADDED:(\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)@([^:]*)(?::${UUID})?$`));
  if (type !== 'string' || added === null) return undefined;
  return {
    library: 'shedlock',
    confidence: 'certain',
    what: `a lock of ShedLock${key.startsWith('job-lock:') ? ` for ${key.split(':').slice(2).join(':')}` : ''}`,
    ownerString: `taken at ${added[1]} by the clock of host ${added[2] === '' ? '(no name)' : added[2]}; which process there is not said`,
    howToCheck: [
      'look on that host for the Java application and its scheduler log',
      'the time to live is its lockAtMostFor, or what is left of lockAtLeastFor when the task has ended already',
      'it is not extended unless the application does (KeepAliveLockProvider): a task that runs longer loses it silently',
    ],
  };
}

/** A hash, `<uuid of the client>:<thread>` to how often that thread has it; of read-write locks also `mode`. */
function redisson({ type, fields, value }: Seen): Guess | undefined {
  if (type !== 'hash') return undefined;
  const owner = new RegExp(`(${UUID}):(\\d+)(:write)?`);
  const lines = fields.length > 0 ? fields.map(([field]) => field) : [value];
  const match = lines.map((line) => line.match(owner)).find((found) => found !== null);
  if (match === undefined) return undefined;
  const mode = fields.find(([field]) => field === 'mode')?.[1];
  const kind =
    mode === 'read' || mode === 'write' ? `read-write lock of Redisson (in mode ${mode})` : 'lock of Redisson';
  return {
    library: 'redisson',
    confidence: fields.length > 0 ? 'certain' : 'likely',
    what: `a ${kind}`,
    ownerString: `${match[1]} is one Redisson client, random at its start and usually in no log; ${match[2]} its thread; the number how often it has the lock`,
    howToCheck: [
      'CLIENT LIST: which Java applications are connected; a client renews the lock by its watchdog (by default 30 s, every 10 s)',
      'PTTL twice: if it rises, the owner lives',
      'jstack on the candidates: a thread of that number that is in the guarded section',
    ],
  };
}

/** `<prefix>:<queue>:<job>:lock`, `<uuid of the worker>:<count>`. */
function bullmq({ key, type, value }: Seen): Guess | undefined {
  const named = key.match(/^(.+):([^:]+):([^:]+):lock$/);
  const token = value.match(new RegExp(`^(${UUID})(?::\\d+)?$`));
  if (type !== 'string' || named === null) return undefined;
  const [, prefix = '', queue = '', job = ''] = named;
  return {
    library: 'bullmq',
    confidence: token === null ? 'possible' : 'likely',
    what: `the lock of job ${job} in queue ${queue} of BullMQ (prefix ${prefix})`,
    ownerString:
      token === null
        ? 'a token that the application gave itself (getNextJob)'
        : `${token[1]} is one worker, random at its start; the number behind it counts the jobs that it fetched`,
    howToCheck: [
      'HGETALL of the key without :lock: processedOn, attempts, and the name of the worker (pb) if it has one',
      'LPOS of the job in <prefix>:<queue>:active',
      'CLIENT LIST: connections named after the queue; a lock that expires is a stalled job, which BullMQ gives to another worker',
    ],
  };
}

/** sidekiq-unique-jobs: `uniquejobs:<digest>` with a job id of 24 digits, and a hash `…:LOCKED` of job ids. */
function sidekiq({ key, type, value, fields }: Seen): Guess | undefined {
  const isNamed = /(^|:)uniquejobs:/.test(key) || /(^|:)unique:/.test(key);
  const job = [value, ...fields.map(([field]) => field)].join(' ').match(/(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])/)?.[0];
  if (!isNamed || !['string', 'hash', 'list', 'zset'].includes(type)) return undefined;
  return {
    library: 'sidekiq',
    confidence: key.includes('uniquejobs:') ? 'likely' : 'possible',
    what: 'a lock for unique jobs of Sidekiq',
    ownerString:
      job === undefined
        ? 'job ids (jid) of Sidekiq'
        : `${job} is the id (jid) of a job of Sidekiq, not that of a process`,
    howToCheck: [
      'the web pages of Sidekiq: is the job in a queue, busy, to be retried, or scheduled?',
      'it holds from enqueueing on, also without a time to live: a job that was deleted leaves it behind until the reaper comes',
      'Sidekiq::Workers.new in a console: which process runs that job',
    ],
  };
}

/** `mutex:<name>` with a uuid, `semaphore:<name>` a sorted set of them by the time of the last refresh, in ms. */
function redisSemaphore({ key, type, value, fields }: Seen): Guess | undefined {
  const isMutex = type === 'string' && /(^|:)mutex:/.test(key) && new RegExp(`^${UUID}`).test(value);
  const members = fields.length > 0 ? fields.map(([member]) => member).join(' ') : value;
  const isSemaphore = type === 'zset' && /(^|:)semaphore:/.test(key) && new RegExp(UUID).test(members);
  if (!isMutex && !isSemaphore) return undefined;
  return {
    library: 'redis-semaphore',
    confidence: 'likely',
    what: isMutex ? 'a mutex of redis-semaphore' : 'a semaphore of redis-semaphore',
    ownerString: isMutex
      ? 'a uuid, random at each lock, and behind it the identifierSuffix of the application if it gives one'
      : 'each member is a holder (of a multi semaphore one permit of a holder), its score when it refreshed last by its own clock, in ms',
    howToCheck: [
      'PTTL twice: by default it is refreshed at 80 % of lockTimeout (10 s); if it rises, the owner lives',
      'the log of the application, if it logs mutex.identifier',
    ],
  };
}

/** redlock, redlock-universal and much else: 16 random bytes in hexadecimal. */
function randomHex({ type, value, ttlMs }: Seen): Guess | undefined {
  if (type !== 'string' || !HEX_32.test(value) || ttlMs === null) return undefined;
  return {
    library: 'redlock',
    confidence: 'possible',
    what: 'a lock of redlock or redlock-universal, which write the same',
    ownerString: '16 random bytes, new with each lock: it tells nothing of the process',
    howToCheck: [
      'GET on all other servers of the quorum: the lock counts only where most have the same value',
      'PTTL twice: if it rises, the owner lives (using, autoExtend)',
      'CLIENT LIST and the code of whoever is connected',
    ],
  };
}

/** SET NX by hand: anything. */
function bare({ type, value, ttlMs }: Seen): Guess | undefined {
  if (type !== 'string') return undefined;
  return {
    library: 'bare SETNX',
    confidence: 'possible',
    what: 'a text as SET NX by hand leaves it',
    ownerString: meaningOf(value),
    howToCheck: [
      ...(ttlMs === null
        ? [
            'OBJECT IDLETIME (OBJECT FREQ under an LFU policy): for how long nobody has touched it; without a time to live it stays until somebody deletes it',
          ]
        : ['PTTL twice: if it rises, the owner lives']),
      'search the code for the name of the key',
      'CLIENT LIST and, if it may be slow for a moment, MONITOR: who asks for it',
    ],
  };
}

function meaningOf(value: string): string {
  if (/^(1|true|ok|locked?|yes|)$/i.test(value)) return 'nothing but that it is taken';
  if (new RegExp(`^${UUID}$`).test(value)) return 'a uuid, probably random at each lock';
  const instant = timeIn(value);
  if (instant !== undefined)
    return `${instant}, if it is a time: when it was taken, or until when it counts, by the clock of the owner`;
  const named = value.match(/^([A-Za-z0-9][\w.-]*)[:@/](\d{1,7})\b/);
  if (named !== null) return `perhaps host ${named[1]} and process ${named[2]}`;
  return 'not known; whoever wrote the key knows';
}

/** Seconds or milliseconds since 1970, within 2001 to 2100. */
function timeIn(value: string): string | undefined {
  const number = /^\d{10}(\d{3})?(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
  const ms = number < 1e12 ? number * 1000 : number;
  return ms > 978_307_200_000 && ms < 4_102_444_800_000 ? new Date(ms).toISOString() : undefined;
}

const UNKNOWN: Guess = {
  library: 'unknown',
  confidence: 'possible',
  what: 'something that no lock library known here leaves behind',
  ownerString: 'not known',
  howToCheck: ['search the code of whoever uses this Redis for the name of the key', 'CLIENT LIST: who is connected'],
};

const SURE = { certain: 'This is', likely: 'This looks like', possible: 'This may be' } as const;

function told({ what, ...guess }: Guess, { ttlMs }: Seen): ForeignLock {
  const expiry =
    ttlMs === null ? 'never expires' : `expires in ${Math.max(0, Math.ceil(ttlMs / 1000))} s unless extended`;
  return {
    ...guess,
    sentence: `${SURE[guess.confidence]} ${what}. It ${expiry}; Leasehold neither changes nor removes it.`,
  };
}
