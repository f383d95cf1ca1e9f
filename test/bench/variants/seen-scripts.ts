import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { LeaseManager, type AcquireOptions, type LeaseManagerOptions } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';

/** Whose lease it is to be. */
export interface BareLease {
  readonly resource: string;
  readonly leaseId: string;
  /** Where its owner is told that it is its turn. Without one: nowhere. */
  readonly channel?: string;
}

/** The two scripts of a lease, as they are sent for one: what was seen there is sent again, for others. */
export class SeenScripts {
  readonly #acquire: readonly string[];
  readonly #release: readonly string[];
  readonly #leaseId: string;
  readonly #key: string;
  readonly #channel: string;

  private constructor(name: string, calls: readonly (readonly string[])[]) {
    this.#key = `{${name}}`;
    const [acquire = [], release = []] = calls.map(([, ...args]) => args);
    this.#acquire = acquire;
    this.#release = release;
    const own = acquire.slice(2 + Number(acquire[1]));
    this.#leaseId = own[0] ?? '';
    this.#channel = own[4] ?? '';
    if (calls.length !== 2 || !release.includes(this.#leaseId)) throw new Error('one lease is not two scripts');
  }

  static async look(
    client: Redis,
    url: string,
    { ttl = '30s', ...options }: Pick<LeaseManagerOptions, 'ttl'> & Pick<AcquireOptions, 'wait'> = {},
  ): Promise<SeenScripts> {
    // The client takes what it sees before it has seen that it may look for an answer: nobody speaks meanwhile.
    await client.ping();
    const onlooker = await client.monitor();
    // Others may look for theirs at the same time.
    const name = randomBytes(8).toString('hex');
    const calls: string[][] = [];
    onlooker.on('monitor', (_: string, args: string[]) => {
      if (args[0]?.toLowerCase() === 'evalsha' && args.some((arg) => arg.endsWith(`{${name}}`))) calls.push(args);
    });
    await using leases = new LeaseManager({ store: redisStore(url), ttl });
    // Once for the scripts to be known: the first time they are sent as text.
    await (await leases.acquire(`${name}:first`, options)).release();
    await (await leases.acquire(name, options)).release();
    while (calls.length < 2) await once(onlooker, 'monitor');
    onlooker.disconnect();
    return new SeenScripts(name, calls);
  }

  acquire(client: Redis, lease: BareLease): Promise<string> {
    return this.#call(client, this.#acquire, lease);
  }

  release(client: Redis, lease: BareLease): Promise<string> {
    return this.#call(client, this.#release, lease);
  }

  #call(
    client: Redis,
    seen: readonly string[],
    { resource, leaseId, channel = this.#channel }: BareLease,
  ): Promise<string> {
    const args = seen.map((arg, index) => {
      if (arg === this.#leaseId) return leaseId;
      if (arg === this.#channel && arg !== '') return channel;
      return index > 1 && index < 7 ? arg.replace(this.#key, `{bare-${resource}}`) : arg;
    });
    const [sha = '', keys = '0', ...rest] = args;
    return client.evalsha(sha, Number(keys), ...rest) as Promise<string>;
  }
}
