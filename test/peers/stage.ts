import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

import { startChild, type Child } from '../support/child.ts';
import type { FakeTime } from '../support/faketime.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import type { Peer } from './adapters/peer.ts';
import { peerNamed } from './catalog.ts';
import { ACCEPTED, entries, type Entry } from './ledger.ts';
import type { OwnerSetup } from './owner.ts';

export interface StageOptions {
  readonly peer: string;
  readonly leaseMs: number;
  readonly commandTimeoutMs?: number | undefined;
  /** The binary of Node that owners run on. Default: this one. */
  readonly node?: string | undefined;
}

const RESOURCE = 'account-7';

/** One store, one resource, and the owners of one proof. The first owner is behind proxies. */
export class Stage implements AsyncDisposable {
  readonly peer: Peer;
  readonly leaseMs: number;
  readonly store: RedisServer;
  readonly ledger: Redis;
  readonly storeProxy: TcpProxy;
  readonly ledgerProxy: TcpProxy;
  readonly #options: StageOptions;
  readonly #ledgerUrl: string;
  readonly #ends: (() => Promise<unknown>)[];

  private constructor(
    options: StageOptions,
    peer: Peer,
    parts: {
      readonly store: RedisServer;
      readonly resource: RedisServer;
      readonly ledger: Redis;
      readonly storeProxy: TcpProxy;
      readonly ledgerProxy: TcpProxy;
    },
    ends: (() => Promise<unknown>)[],
  ) {
    this.peer = peer;
    this.leaseMs = options.leaseMs;
    this.store = parts.store;
    this.ledger = parts.ledger;
    this.storeProxy = parts.storeProxy;
    this.ledgerProxy = parts.ledgerProxy;
    this.#options = options;
    this.#ledgerUrl = parts.resource.url;
    this.#ends = ends;
  }

  static async open(options: StageOptions): Promise<Stage> {
    const ends: (() => Promise<unknown>)[] = [];
    try {
      const peer = await peerNamed(options.peer);
      const store = await startRedis();
      ends.push(() => store.stop());
      const resource = await startRedis();
      ends.push(() => resource.stop());
      const ledger = await connectRedis(resource.url);
      ends.push(async () => ledger.disconnect());
      const storeProxy = await TcpProxy.start(store);
      ends.push(() => storeProxy.close());
      const ledgerProxy = await TcpProxy.start(resource);
      ends.push(() => ledgerProxy.close());
      return new Stage(options, peer, { store, resource, ledger, storeProxy, ledgerProxy }, ends);
    } catch (error) {
      await endAll(ends);
      throw error;
    }
  }

  get renewMs(): number {
    return this.peer.renewMs(this.leaseMs);
  }

  /** Starts the processes side by side: each is ready, and none has asked. */
  async owners(names: readonly string[], faketime?: FakeTime): Promise<readonly Owner[]> {
    const owners = names.map((name, index) => {
      const isFirst = index === 0;
      const setup: OwnerSetup = {
        peer: this.#options.peer,
        owner: name,
        storeUrl: isFirst ? this.storeProxy.redisUrl : this.store.url,
        ledgerUrl: isFirst ? this.ledgerProxy.redisUrl : this.#ledgerUrl,
        witnessUrl: this.#ledgerUrl,
        resource: RESOURCE,
        leaseMs: this.leaseMs,
        commandTimeoutMs: this.#options.commandTimeoutMs,
      };
      const child = startChild(new URL('./owner.ts', import.meta.url), {
        env: { ...(isFirst ? faketime?.env : {}), PEER_OWNER: JSON.stringify(setup) },
        node: this.#options.node,
      });
      this.#ends.push(() => child.kill9());
      return new Owner(name, child);
    });
    await Promise.all(owners.map(({ child }) => child.next('ready', { timeoutMs: 60_000 })));
    return owners;
  }

  /** The first owns and acts, the second waits. */
  async begin(first: Owner, second: Owner): Promise<void> {
    first.child.send('go');
    await first.child.next('entered', { timeoutMs: 60_000 });
    await this.contend(second);
  }

  /** Until the owner has asked, and some time more has passed in which the asking has reached the store. */
  async contend(owner: Owner): Promise<void> {
    owner.child.send('go');
    await owner.child.next('contending');
    await sleep(300);
  }

  /** What was accepted, in the order in which it was. */
  async accepted(): Promise<readonly Entry[]> {
    return entries(this.ledger, ACCEPTED);
  }

  /** When this owner's first write was accepted; null if none was within the patience that its library asks for. */
  async takeOver(owner: Owner): Promise<number | null> {
    const untilMs = performance.now() + this.peer.patienceMs(this.leaseMs) + this.leaseMs * 2;
    for (;;) {
      const first = (await this.accepted()).find((entry) => entry.owner === owner.name);
      if (first !== undefined) return first.atMs;
      if (performance.now() > untilMs) return null;
      await sleep(20);
    }
  }

  /** Lets so much time pass, less if the owner has ended its section and can act no more. Gives the end. */
  async watch(owner: Owner, ms: number): Promise<number> {
    await Promise.race([owner.over, sleep(ms)]);
    return Date.now();
  }

  async deleteKeys(): Promise<number> {
    await using client = await connectRedis(this.store.url);
    let deleted = 0;
    for (const pattern of this.peer.keys(RESOURCE)) {
      const keys = await client.keys(pattern);
      if (keys.length > 0) deleted += await client.del(...keys);
    }
    return deleted;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endAll(this.#ends);
  }
}

export class Owner {
  readonly name: string;
  readonly child: Child;
  /** When its section or its process is at its end: for waiting less, not as evidence. */
  readonly over: Promise<unknown>;

  constructor(name: string, child: Child) {
    this.name = name;
    this.child = child;
    // Long after every proof.
    this.over = child.next('left', { timeoutMs: 600_000 }).catch(() => {});
  }

  /** How its process ended, if it did by itself. */
  async crash(): Promise<string | null> {
    const exit = await Promise.race([this.child.exit, sleep(0)]);
    if (exit === undefined || exit.code === 0) return null;
    const error = /^(?:\w*Error\b.*|\[?Unhandled.*)$/m.exec(this.child.output)?.[0] ?? `exit code ${exit.code}`;
    return error.slice(0, 120);
  }
}

async function endAll(ends: (() => Promise<unknown>)[]): Promise<void> {
  for (const end of ends.splice(0).toReversed()) await end();
}
