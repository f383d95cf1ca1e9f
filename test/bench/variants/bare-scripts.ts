import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';

/**
 * The two scripts of a lease without all that is around them: what was sent for one lease is sent again and again, with
 * other names. What a lease costs above it is the engine's; what it costs above the floor is the record's.
 */
export class BareScripts {
  readonly #client: Redis;
  readonly #acquire: readonly string[];
  readonly #release: readonly string[];
  readonly #leaseId: string;
  readonly #key: string;

  private constructor(client: Redis, name: string, calls: readonly (readonly string[])[]) {
    this.#client = client;
    this.#key = `{${name}}`;
    const [acquire = [], release = []] = calls.map(([, ...args]) => args);
    this.#acquire = acquire;
    this.#release = release;
    this.#leaseId = acquire[2 + Number(acquire[1])] ?? '';
    if (calls.length !== 2 || !release.includes(this.#leaseId)) throw new Error('one lease is not two scripts');
  }

  /** By looking at what is sent for a lease. */
  static async open(url: string): Promise<BareScripts> {
    const client = new Redis(url);
    client.on('error', () => {});
    const onlooker = await client.monitor();
    // Others may look for theirs at the same time.
    const name = randomBytes(8).toString('hex');
    const calls: string[][] = [];
    onlooker.on('monitor', (_: string, args: string[]) => {
      if (args[0]?.toLowerCase() === 'evalsha' && args.some((arg) => arg.endsWith(`{${name}}`))) calls.push(args);
    });
    await using leases = new LeaseManager({ store: redisStore(url) });
    // Once for the scripts to be known: the first time they are sent as text.
    await leases.run(`${name}:first`, () => {});
    await leases.run(name, () => {});
    while (calls.length < 2) await once(onlooker, 'monitor');
    onlooker.disconnect();
    return new BareScripts(client, name, calls);
  }

  async pair(name: string): Promise<void> {
    const leaseId = randomBytes(16).toString('hex');
    const granted = await this.#call(this.#acquire, name, leaseId);
    if (!granted.startsWith(`${leaseId} granted`)) throw new Error(`${name} was busy: ${granted}`);
    await this.#call(this.#release, name, leaseId);
  }

  close(): void {
    this.#client.disconnect();
  }

  #call(seen: readonly string[], name: string, leaseId: string): Promise<string> {
    const args = seen.map((arg, index) => {
      if (arg === this.#leaseId) return leaseId;
      return index > 1 && index < 7 ? arg.replace(this.#key, `{bare-${name}}`) : arg;
    });
    const [sha = '', keys = '0', ...rest] = args;
    return this.#client.evalsha(sha, Number(keys), ...rest) as Promise<string>;
  }
}
