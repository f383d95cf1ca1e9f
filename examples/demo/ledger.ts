import type { Fence, Lease } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import { Redis } from 'ioredis';

import type { Setting } from './messages.ts';

/** Of every account. */
export const FIRST_BALANCE = 100;

/** An account, one value in Redis. Whoever writes it back writes all of it: a stale write undoes later ones. */
export interface Account {
  readonly balance: number;
  /** The jobs that made this balance. */
  readonly applied: readonly string[];
}

/** Accounts and the cron task's notes, with or without a fence in front of them. */
export interface Ledger {
  /** What a lease must activate before anybody reads. */
  readonly fences: readonly Fence[];
  read(name: string): Promise<Account>;
  write(lease: Lease, name: string, account: Account): Promise<void>;
  note(lease: Lease, line: string): Promise<void>;
  notes(): Promise<string[]>;
  close(): Promise<void>;
}

export function openLedger({ url, prefix, fenced }: Omit<Setting, 'name'>): Ledger {
  const redis = new Redis(url);
  // Every call reports its own failure.
  redis.on('error', () => {});
  const fence = redisFence(redis, { name: 'ledger' });
  // The braces keep the data of a resource in the same slot of a Redis Cluster as its fence.
  const accountKey = (name: string): string => `{${prefix}/${name}}:account`;
  const notesKey = `{${prefix}/report}:notes`;

  /** The only difference between the two variants of the demo. */
  async function send(lease: Lease, command: string, ...args: readonly string[]): Promise<void> {
    // With `lease` instead of its grant the fence would look at this process's clocks once more, and a writer that woke up
    // too late would not even send. A pause can come after that look as well, so here the fence has to decide alone.
    if (fenced) await fence.write(lease.grant, (tx) => tx.call(command, ...args));
    else await redis.call(command, ...args);
  }

  return {
    fences: fenced ? [fence] : [],
    async read(name) {
      const stored = await redis.get(accountKey(name));
      return stored === null ? { balance: FIRST_BALANCE, applied: [] } : (JSON.parse(stored) as Account);
    },
    write: (lease, name, account) => send(lease, 'SET', accountKey(name), JSON.stringify(account)),
    note: (lease, line) => send(lease, 'RPUSH', notesKey, line),
    notes: () => redis.lrange(notesKey, 0, -1),
    async close() {
      redis.disconnect();
    },
  };
}
