import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

import { SeenScripts } from './seen-scripts.ts';

/**
 * The two scripts of a lease without all that is around them. What a lease costs above it is the engine's; what it costs
 * above the floor is the record's.
 */
export class BareScripts {
  readonly #client: Redis;
  readonly #scripts: SeenScripts;

  private constructor(client: Redis, scripts: SeenScripts) {
    this.#client = client;
    this.#scripts = scripts;
  }

  static async open(url: string): Promise<BareScripts> {
    const client = new Redis(url);
    client.on('error', () => {});
    return new BareScripts(client, await SeenScripts.look(url));
  }

  async pair(resource: string): Promise<void> {
    const lease = { resource, leaseId: randomBytes(16).toString('hex') };
    const granted = await this.#scripts.acquire(this.#client, lease);
    if (!granted.startsWith(`${lease.leaseId} granted`)) throw new Error(`${resource} was busy: ${granted}`);
    await this.#scripts.release(this.#client, lease);
  }

  close(): void {
    this.#client.disconnect();
  }
}
