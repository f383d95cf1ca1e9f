import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

/** How little a lock with a fencing token can be: each takes two calls, as the floor does. */
export type LeastKind = 'two keys' | 'one string' | 'empty scripts';

/** Of what our record says of its owner: a line, and some 550 bytes of JSON. */
const ABOUT = 'x'.repeat(600);

interface Pair {
  readonly take: string;
  readonly give: string;
  /** Beside the lock. */
  readonly hasCounter: boolean;
}

const PAIRS: Readonly<Record<LeastKind, Pair>> = {
  // The floor, and a counter in the same step. It knows nothing else: not who, since when, or how it ended.
  'two keys': {
    take: `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return 0`,
    give: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
    hasCounter: true,
  },
  // Deadline and token as two numbers of 8 bytes, then the leaseId, then as many bytes about the owner as our record has, put
  // together by the client. Token and owner outlive the lock, as with ours; there is no queue, no tick, no log, and nothing
  // that a person could read. Of what is long nothing is read.
  'one string': {
    take: `local kept, time = redis.call('GETRANGE', KEYS[1], 0, 15), redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token = now
if kept ~= '' then
  local ends, last = struct.unpack('dd', kept)
  if ends > now then return 0 end
  if last >= now then token = last + 1 end
end
redis.call('SET', KEYS[1], struct.pack('dd', now + ARGV[2] * 1000, token) .. ARGV[1] .. ARGV[3])
return token`,
    give: `if redis.call('GETRANGE', KEYS[1], 16, 47) ~= ARGV[1] then return 0 end
redis.call('SETRANGE', KEYS[1], 0, '\\0\\0\\0\\0\\0\\0\\0\\0')
return redis.call('PEXPIRE', KEYS[1], 604800000)`,
    hasCounter: false,
  },
  // What it costs to ask a script at all.
  'empty scripts': { take: 'return 1', give: 'return 1', hasCounter: false },
};

type Take = (keys: number, ...args: readonly (string | number)[]) => Promise<number>;
type Give = (key: string, value: string) => Promise<number>;

/** A lock with a token, and nothing beside: over a plain client, like the floor. It shows how far any fenced lock can get. */
export class LeastFencing {
  readonly #client: Redis;
  readonly #take: Take;
  readonly #give: Give;
  readonly #kind: LeastKind;

  constructor(url: string, kind: LeastKind) {
    this.#kind = kind;
    this.#client = new Redis(url);
    this.#client.on('error', () => {});
    const { take, give } = PAIRS[kind];
    this.#client.defineCommand('take', { lua: take });
    this.#client.defineCommand('give', { lua: give, numberOfKeys: 1 });
    const own = this.#client as unknown as { readonly take: Take; readonly give: Give };
    this.#take = own.take.bind(this.#client);
    this.#give = own.give.bind(this.#client);
  }

  async pair(name: string): Promise<void> {
    const key = `least:{${this.#kind.replaceAll(' ', '-')}${name}}`;
    const value = randomBytes(16).toString('hex');
    const token = PAIRS[this.#kind].hasCounter
      ? await this.#take(2, key, `${key}:token`, value, 30_000)
      : await this.#take(1, key, value, 30_000, ABOUT);
    if (token < 1) throw new Error(`${key} was busy`);
    if ((await this.#give(key, value)) !== 1) throw new Error(`${key} was lost`);
  }

  close(): void {
    this.#client.disconnect();
  }
}
