import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

import { SeenScripts, type BareLease } from './seen-scripts.ts';

/**
 * Waits for its turn by our scripts and messages, over two plain clients: without manager, deadlines, refreshes, and whatever
 * looks after those who died. Each acquisition is the script, a message, and the script again.
 */
export class BareWaiter {
  readonly #commands: Redis;
  readonly #messages: Redis;
  readonly #scripts: SeenScripts;
  readonly #channel: string;
  /** By leaseId. */
  readonly #asleep = new Map<string, () => void>();
  /** Told before the answer has come that there is something to wait for. */
  readonly #early = new Set<string>();

  private constructor(commands: Redis, messages: Redis, channel: string, scripts: SeenScripts) {
    this.#commands = commands;
    this.#messages = messages;
    this.#channel = channel;
    this.#scripts = scripts;
    messages.on('message', (_channel: string, text: string) => this.#hear(text));
  }

  static async open(url: string, ttl: '10s'): Promise<BareWaiter> {
    const [commands, messages] = [new Redis(url), new Redis(url)];
    for (const client of [commands, messages]) client.on('error', () => {});
    const channel = `bare:${randomBytes(9).toString('base64url')}`;
    await messages.subscribe(channel);
    return new BareWaiter(commands, messages, channel, await SeenScripts.look(commands, url, { ttl, wait: Infinity }));
  }

  async acquire(resource: string): Promise<BareLease> {
    const lease = { resource, leaseId: randomBytes(16).toString('hex'), channel: this.#channel };
    const { leaseId } = lease;
    for (;;) {
      const answer = await this.#scripts.acquire(this.#commands, lease);
      if (answer.startsWith(`${leaseId} granted`)) return lease;
      if (!answer.startsWith(`${leaseId} no`)) throw new Error(`${resource}: ${answer}`);
      if (!this.#early.delete(leaseId)) await new Promise<void>((wake) => this.#asleep.set(leaseId, wake));
    }
  }

  async release(lease: BareLease): Promise<void> {
    await this.#scripts.release(this.#commands, lease);
  }

  close(): void {
    this.#commands.disconnect();
    this.#messages.disconnect();
  }

  #hear(text: string): void {
    const [kind, , leaseId = ''] = text.split(' ');
    if (kind !== 'go') return;
    const wake = this.#asleep.get(leaseId);
    this.#asleep.delete(leaseId);
    if (wake === undefined) this.#early.add(leaseId);
    else wake();
  }
}
