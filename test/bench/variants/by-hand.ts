import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

const COMPARE_AND_DELETE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export interface HeldByHand {
  readonly key: string;
  readonly value: string;
}

/** The least that a lock over ioredis is: SET NX PX, and a compare-and-delete as a script. Not extended, not fenced. */
export class ByHand {
  readonly client: Redis;
  readonly #ttlMs: number;
  readonly #compareAndDelete: (key: string, value: string) => Promise<unknown>;

  constructor(url: string, ttlMs = 30_000, enableAutoPipelining = false) {
    this.client = new Redis(url, { enableAutoPipelining });
    this.client.on('error', () => {});
    this.#ttlMs = ttlMs;
    this.client.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: COMPARE_AND_DELETE });
    const { compareAndDelete } = this.client as unknown as {
      compareAndDelete(key: string, value: string): Promise<unknown>;
    };
    this.#compareAndDelete = compareAndDelete.bind(this.client);
  }

  /** It is never busy here. */
  async acquire(name: string): Promise<HeldByHand> {
    const value = randomBytes(16).toString('hex');
    const key = `by-hand:${name}`;
    if ((await this.client.set(key, value, 'PX', this.#ttlMs, 'NX')) !== 'OK') throw new Error(`${key} was busy`);
    return { key, value };
  }

  release({ key, value }: HeldByHand): Promise<unknown> {
    return this.#compareAndDelete(key, value);
  }

  close(): void {
    this.client.disconnect();
  }
}
