import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseholdError, LeaseManager, type Fence, type HistoryEntry, type LeaseInfo } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { Hands } from './hands.ts';
import { Worker, type WorkerSettings } from './worker.ts';

export const PREFIX = 'shop';

interface ConfigFile {
  readonly store: RedisServer;
  readonly ledger?: RedisServer;
  readonly endpoints?: readonly RedisServer[];
  readonly quarantine?: boolean;
  readonly resource: string;
}

/** What one incident has started: servers, processes, folders. All of it is ended when it is disposed. */
export class Scene implements AsyncDisposable {
  /** Of the leases. Long enough for a person who reads, or short, for a test. */
  readonly ttlMs: number;
  readonly #open: AsyncDisposable[] = [];

  constructor(ttlMs: number) {
    this.ttlMs = ttlMs;
  }

  async server(...args: readonly string[]): Promise<RedisServer> {
    return this.#keep(await startRedis({ args, scope: 'file' }));
  }

  async worker(settings: Omit<WorkerSettings, 'prefix' | 'ttlMs'>): Promise<Worker> {
    return this.#keep(await Worker.start({ ttlMs: this.ttlMs, ...settings, prefix: PREFIX }));
  }

  async fence(server: RedisServer): Promise<Fence> {
    return redisFence(this.#keep(await connectRedis(server.url)), { name: 'ledger' });
  }

  /** Somebody in this process who can ask, and acquire. */
  leases(server: RedisServer, { name = 'examiner', quarantine = false } = {}): LeaseManager {
    const store = redisStore(server.url, { prefix: PREFIX });
    const leases = new LeaseManager({ store, ttl: this.ttlMs, history: 'all', owner: name, quarantine });
    this.add(async () => void (await leases.close({ grace: 0, abandonAfter: 0 })));
    return leases;
  }

  /** Waits for the resource, and keeps it to the end. */
  standby(server: RedisServer, resource: string, fence: Fence, { quarantine = false } = {}): Standby {
    return this.#keep(new Standby(this.leases(server, { name: 'web-2', quarantine }), resource, fence));
  }

  async hands(server: RedisServer, resource: string): Promise<Hands> {
    return this.#keep(await Hands.watch(server, keysOf(resource)));
  }

  /** A folder with a leasehold.yaml, whose one job is on the resource. The path of the config. */
  config({ store, ledger, endpoints = [], quarantine = false, resource }: ConfigFile): string {
    const dir = guardedFolder('incident');
    this.add(async () => removeFolder(dir));
    const servers = endpoints.map(({ host, port }) => `'${host}:${port}'`);
    const lines = [
      'version: 1',
      'store:',
      `  redis: '${store.url}'`,
      `  prefix: ${PREFIX}`,
      '  history: all',
      ...(quarantine ? ['  quarantine: true'] : []),
      ...(servers.length > 0 ? [`  endpoints: [${servers.join(', ')}]`] : []),
      ...(ledger === undefined ? [] : [`fences: { ledger: { redis: '${ledger.url}' } }`]),
      'jobs:',
      `  ${resource}:`,
      '    every: 1h',
      '    handler: ./job.mjs',
      `    lease: { resource: ${resource}, ttl: ${this.ttlMs}ms${ledger === undefined ? '' : ', fences: [ledger]'} }`,
    ];
    writeFileSync(join(dir, 'job.mjs'), 'export default async () => {};\n');
    const file = join(dir, 'leasehold.yaml');
    writeFileSync(file, `${lines.join('\n')}\n`);
    return file;
  }

  /** Done when it is over. */
  add(end: () => Promise<void>): void {
    this.#keep({ [Symbol.asyncDispose]: end });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#open.splice(0).toReversed()) await each[Symbol.asyncDispose]();
  }

  #keep<T extends AsyncDisposable>(thing: T): T {
    this.#open.push(thing);
    return thing;
  }
}

/** Record and log of a resource. */
export function keysOf(resource: string): readonly string[] {
  return [`${PREFIX}:{${resource}}`, `${PREFIX}:{${resource}}:log`];
}

/** The next in the queue. */
export class Standby implements AsyncDisposable {
  /** Of its lease; null as long as it waits. */
  fencingToken: number | null = null;
  readonly entered: Promise<void>;
  readonly #end = new AbortController();
  readonly #done: Promise<unknown>;

  constructor(leases: LeaseManager, resource: string, fence: Fence) {
    const { signal } = this.#end;
    const ended = once(signal, 'abort');
    let enter = (): void => {};
    this.entered = new Promise((resolve) => {
      enter = resolve;
    });
    this.#done = leases
      .run(resource, { wait: Infinity, fences: [fence], signal }, async (lease) => {
        this.fencingToken = lease.fencingToken;
        enter();
        await ended;
      })
      .catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#done;
  }
}

/** A resource as it is now, for a judge. */
export interface State {
  readonly lease: LeaseInfo | null;
  /** The newest first. */
  readonly log: readonly HistoryEntry[];
}

export async function stateOf(leases: LeaseManager, resource: string): Promise<State> {
  const lease = await leases.inspect(resource).catch((error: unknown) => {
    if (LeaseholdError.is(error, 'FOREIGN_KEY')) return null; // written by hand: that is told of the hand
    throw error;
  });
  return { lease, log: await leases.history(resource) };
}
