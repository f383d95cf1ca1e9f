import { randomBytes } from 'node:crypto';
import { LeaseManager, type AcquireOptions, type LeaseManagerOptions } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';

import { TcpProxy } from '../../support/proxy.ts';

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

  private constructor(name: string, acquire: readonly string[], release: readonly string[]) {
    this.#key = `{${name}}`;
    this.#acquire = acquire;
    this.#release = release;
    const own = acquire.slice(2 + Number(acquire[1]));
    this.#leaseId = own[0] ?? '';
    this.#channel = own[4] ?? '';
    if (!release.includes(this.#leaseId)) throw new Error('the two scripts are not of one lease');
  }

  static async look(
    url: string,
    { ttl = '30s', ...options }: Pick<LeaseManagerOptions, 'ttl'> & Pick<AcquireOptions, 'wait'> = {},
  ): Promise<SeenScripts> {
    const { hostname, port } = new URL(url);
    await using proxy = await TcpProxy.start({ host: hostname, port: Number(port) });
    await using leases = new LeaseManager({ store: redisStore(proxy.redisUrl), ttl });
    // Others may look for theirs at the same time.
    const name = randomBytes(8).toString('hex');
    // Once for the scripts to be known: the first time they are sent as text.
    await (await leases.acquire(`${name}:first`, options)).release();
    const acquire = proxy.nextRequest('evalsha');
    const lease = await leases.acquire(name, options);
    const release = proxy.nextRequest('evalsha');
    await lease.release();
    return new SeenScripts(name, argumentsOf(await acquire), argumentsOf(await release));
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

/** What follows EVALSHA in a request, as it went over the wire: the length of each, and it; nothing of ours has a line end. */
function argumentsOf(request: Buffer): readonly string[] {
  return request
    .toString()
    .split('\r\n')
    .filter((_, index) => index > 0 && index % 2 === 0)
    .slice(1);
}
