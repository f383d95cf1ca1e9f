import { randomUUID } from 'node:crypto';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError, type Fence } from '@leasehold/core';
import { redisFence, type RedisTx } from '@leasehold/core/redis';
import { clientOf } from '../redis.ts';
import type { DrillFence } from './messages.ts';
import { DRILL_PREFIX, ledgerKey, scratchFenceKey } from './scratch.ts';

/** What a guarded write leaves behind. */
export interface LedgerEntry {
  readonly writeId: string;
  readonly fencingToken: number;
  readonly leaseId: string;
}

/** A fence that is drilled, with what is written through it. */
export interface OpenDrillFence {
  readonly fence: Fence;
  /** For `fence.write`. */
  readonly body: (entry: LedgerEntry) => (tx: unknown) => void;
  readonly close: () => Promise<unknown>;
}

/** If a drill is killed its ledger goes by itself. */
const LEDGER_MS = 3_600_000;

/** Connects at its first use. Rejects with `ConfigError` for what is no fence. */
export async function openDrillFence(fence: DrillFence, resource: string): Promise<OpenDrillFence> {
  if (fence.kind === 'module') return openModule(fence.file);
  if (fence.kind === 'scratch') {
    const client = clientOf(fence.redis);
    // Each call of the fence says so by itself. Without a listener ioredis prints.
    client.on('error', () => {});
    const own = redisFence(client, {
      name: 'drill',
      key: (name) => scratchFenceKey(name.slice(DRILL_PREFIX.length + 1)),
    });
    return { fence: own, body: ledgerBody(ledgerKey(resource, true)), close: async () => client.disconnect() };
  }
  const [{ openFence }, { pino }] = await Promise.all([import('../run/fences.ts'), import('pino')]);
  const { fence: own, close } = await openFence(fence.name, fence.settings, pino({ level: 'silent' }));
  const body = fence.settings.kind === 'redis' ? ledgerBody(ledgerKey(resource, false)) : emptyBody;
  return { fence: own, body, close };
}

function ledgerBody(key: string): OpenDrillFence['body'] {
  return (entry) => (tx) => {
    (tx as RedisTx).call('RPUSH', key, JSON.stringify(entry));
    (tx as RedisTx).call('PEXPIRE', key, LEDGER_MS);
  };
}

/** What is written is whether it may be: the tables of a database are not the drill's. */
const emptyBody: OpenDrillFence['body'] = () => () => {};

async function openModule(file: string): Promise<OpenDrillFence> {
  const path = resolve(file);
  let module: { readonly openFence?: unknown };
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module;
  } catch (error) {
    throw new ConfigError('--fence-module', `${file} cannot be imported: ${(error as Error).message}`, error);
  }
  if (typeof module.openFence !== 'function') {
    throw new ConfigError('--fence-module', `${file} exports no function openFence, which returns the fence`);
  }
  const fence = (await (module.openFence as () => unknown)()) as Fence;
  if (typeof fence?.write !== 'function' || typeof fence.activate !== 'function') {
    throw new ConfigError('--fence-module', `openFence of ${file} does not return a fence`);
  }
  return { fence, body: emptyBody, close: async () => {} };
}

export function newWriteId(): string {
  return randomUUID();
}
