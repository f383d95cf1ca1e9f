// Half of the clients that hand a resource from one to the next: every other one, so that it always goes to the other process.
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

import { libraryNamed } from '../../peers/libraries.ts';
import { nowUs, type Side } from '../side.ts';
import { BareWaiter } from './bare-waiter.ts';
import { SeenScripts, type BareLease } from './seen-scripts.ts';

/** One turn of a client: when it asked, began and ended, in µs of the clock that all processes share. */
export interface Turn {
  readonly client: number;
  readonly asked: number;
  readonly begun: number;
  readonly ended: number;
}

export interface HandOffSetup {
  readonly url: string;
  readonly clients: readonly number[];
  readonly of: number;
  /** How long each turn takes: long enough for whoever was last to be in the queue again. */
  readonly holdMs: number;
  /** Beside `floor`, `leasehold` and `bare scripts`. */
  readonly libraries: readonly string[];
}

export interface Round {
  readonly variant: string;
  readonly resource: string;
  readonly until: number;
}

const TTL = '10s';

interface Asker {
  /** Waits as long as it takes. */
  acquire(resource: string): Promise<unknown>;
  release(lock: unknown): Promise<unknown>;
  close(): Promise<unknown> | void;
}

function leasehold(url: string): Asker {
  const leases = new LeaseManager({ store: redisStore(url), ttl: TTL });
  return {
    acquire: (resource) => leases.acquire(resource, { wait: Infinity }),
    release: (lease: Lease) => lease.release(),
    close: () => leases.close(),
  };
}

async function bareScripts(url: string, scripts: SeenScripts): Promise<Asker> {
  const waiter = new BareWaiter(url, scripts);
  await waiter.ready();
  return {
    acquire: (resource) => waiter.acquire(resource),
    release: (lease: BareLease) => waiter.release(lease),
    close: () => waiter.close(),
  };
}

/** Who ends wakes the next by a message, who is woken sends one SET. Nobody decides who is next: it is known. */
class Floor {
  readonly client: number;
  readonly #commands: Redis;
  readonly #messages: Redis;
  readonly #of: number;
  #woken: (() => void)[] = [];
  #early = 0;

  constructor(url: string, client: number, of: number) {
    this.client = client;
    this.#of = of;
    this.#commands = new Redis(url);
    this.#messages = new Redis(url);
    this.#messages.on('message', () => {
      const wake = this.#woken.shift();
      if (wake === undefined) this.#early++;
      else wake();
    });
  }

  async ready(): Promise<void> {
    await this.#messages.subscribe(`floor:${this.client}`);
  }

  async acquire(resource: string): Promise<void> {
    if (this.#early > 0) this.#early--;
    else await new Promise<void>((wake) => this.#woken.push(wake));
    await this.#commands.set(resource, this.client);
  }

  async wakeNext(): Promise<void> {
    await this.#commands.publish(`floor:${(this.client + 1) % this.#of}`, '');
  }

  /** A round is over: nobody comes any more. */
  rest(): void {
    this.#woken = [];
    this.#early = 0;
  }

  close(): void {
    this.#commands.disconnect();
    this.#messages.disconnect();
  }
}

export async function open({ url, clients, of, holdMs, libraries }: HandOffSetup): Promise<Side> {
  const scripts = await SeenScripts.look(url, { ttl: TTL, wait: Infinity });
  const floors = clients.map((client) => new Floor(url, client, of));
  for (const floor of floors) await floor.ready();
  const askers = new Map<string, readonly Asker[]>([
    ['leasehold', clients.map(() => leasehold(url))],
    ['bare scripts', await Promise.all(clients.map(() => bareScripts(url, scripts)))],
    ...libraries.map(
      (name) => [name, clients.map(() => libraryNamed(name).open({ url, ttlMs: 10_000 }))] as [string, Asker[]],
    ),
  ]);
  const first = (variant: string): Asker => {
    const [asker] = askers.get(variant) ?? [];
    if (asker === undefined) throw new Error(`there is no ${variant}`);
    return asker;
  };
  let release: () => Promise<unknown> = async () => {};

  /** Each client asks again as soon as its turn has ended. */
  async function contend({ variant, resource, until }: Round): Promise<Turn[]> {
    const turns: Turn[] = [];
    const loop = async (client: number, asker: Asker): Promise<void> => {
      while (nowUs() < until) {
        const asked = nowUs();
        const lock = await asker.acquire(resource);
        const begun = nowUs();
        await sleep(holdMs);
        turns.push({ client, asked, begun, ended: nowUs() });
        await asker.release(lock);
      }
    };
    await Promise.all((askers.get(variant) ?? []).map((asker, index) => loop(clients[index] as number, asker)));
    return turns;
  }

  async function contendFloor({ until }: Round): Promise<Turn[]> {
    const turns: Turn[] = [];
    const loop = async (floor: Floor): Promise<void> => {
      while (nowUs() < until) {
        const asked = nowUs();
        await floor.acquire('floor');
        const begun = nowUs();
        await sleep(holdMs);
        const ended = nowUs();
        turns.push({ client: floor.client, asked, begun, ended });
        if (ended < until) await floor.wakeNext();
      }
    };
    const all = Promise.all(floors.map(loop));
    // Those who were never woken wait for ever.
    await Promise.race([all, sleep((until - nowUs()) / 1000 + 20 * holdMs + 50)]);
    for (const floor of floors) floor.rest();
    return turns;
  }

  return {
    contend: (round: Round) => (round.variant === 'floor' ? contendFloor(round) : contend(round)),

    // One waits, the other releases and wants no more.
    async hold({ variant, resource }: Round): Promise<void> {
      if (variant === 'floor') {
        release = async () => floors[0]?.wakeNext();
        return;
      }
      const asker = first(variant);
      const lock = await asker.acquire(resource);
      release = () => asker.release(lock);
    },
    async wait({ variant, resource }: Round): Promise<number> {
      if (variant === 'floor') {
        await floors[0]?.acquire(resource);
        return nowUs();
      }
      const asker = first(variant);
      const lock = await asker.acquire(resource);
      const begun = nowUs();
      await asker.release(lock);
      return begun;
    },
    async release(): Promise<number> {
      const from = nowUs();
      await release();
      return from;
    },
    async close() {
      for (const floor of floors) floor.close();
      for (const each of [...askers.values()].flat()) await each.close();
    },
  };
}
