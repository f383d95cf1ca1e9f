import { ConfigError, type LeaseManager } from '@leasehold/core';

import type { Skip } from './claimant.ts';
import type { JobSettings } from './options.ts';

/** A process that loses ticks to others has been lucky enough to win one before, or asks no more. */
const MAX_LOOKS = 5;

/**
 * Finds out in a background process of node-cron whether its own parent stands in its way: with `distributed: true` the
 * parent has claimed each tick before it lets this process run it, so here it would be refused for ever.
 */
export class ParentClaim {
  readonly #manager: LeaseManager;
  readonly #settings: JobSettings;
  #looksLeft = process.send === undefined ? 0 : MAX_LOOKS;

  constructor(manager: LeaseManager, settings: JobSettings) {
    this.#manager = manager;
    this.#settings = settings;
  }

  /** A tick was won here, so the parent claims none. */
  exclude(): void {
    this.#looksLeft = 0;
  }

  /** Throws `ConfigError` if it is the parent that has what a tick was refused for. */
  async check({ reason }: Skip): Promise<void> {
    if (this.#looksLeft === 0 || (reason !== 'already-ran' && reason !== 'held')) return;
    if (!(await this.#isParents())) {
      this.#looksLeft--;
      return;
    }
    throw new ConfigError(
      'distributed',
      `process ${process.ppid}, which started this one, has claimed this tick of ${this.#settings.name} itself, so the task never runs here; schedule the file without distributed: true, because leasedTask() elects by itself`,
    );
  }

  async #isParents(): Promise<boolean> {
    try {
      const info = await this.#manager.inspect(this.#settings.resource);
      if (info?.state !== 'held' || info.identity === null) return false;
      const { pid, host, pidNamespace, bootId } = info.identity;
      const ours = this.#manager.owner;
      return pid === process.ppid && host === ours.host && pidNamespace === ours.pidNamespace && bootId === ours.bootId;
    } catch {
      // Only a diagnosis: without it the tick is skipped as any other.
      return false;
    }
  }
}
