import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

import type { BareLease, SeenScripts } from './seen-scripts.ts';

/**
 * Waits for its turn by our scripts and messages, over two plain clients: without manager, deadlines, refreshes, and whatever
 * looks after those who died. Each acquisition is the script, a message, and the script again.
 */
export class BareWaiter {
  readonly #commands: Redis;
  readonly #messages: Redis;
  readonly #scripts: SeenScripts;
  readonly #channel = `bare:${randomBytes(9).toString('base64url')}`;
  /** By leaseId. */
  readonly #asleep = new Map<string, () => void>();
  /** Told before the answer has come that there is something to wait for. */
  readonly #early = new Set<string>();

  constructor(url: string, scripts: SeenScripts) {
    this.#scripts = scripts;
    this.#commands = new Redis(url);
    this.#messages = new Redis(url);
    for (const client of [this.#commands, this.#messages]) client.on('error', () => {});
    this.#messages.on('message', (_channel: string, text: string) => this.#hear(text));
  }

  async ready(): Promise<void> {
    await this.#messages.subscribe(this.#channel);
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
