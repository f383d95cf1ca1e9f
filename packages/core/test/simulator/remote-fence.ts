import { FenceUnavailableError, StaleTokenError } from '../../src/errors.ts';
import { grantForWrite, grantOf, reportRefusal, type Fence, type Grant, type Holding } from '../../src/fence/fence.ts';
import { MemoryFence, type MemoryTx } from '../../src/fence/memory.ts';
import type { FenceRow } from '../../src/testing/history/history.ts';
import type { Link } from './network.ts';
import type { Place } from './points.ts';
import type { SimProcess } from './process.ts';
import { settled, type Settled } from './settled.ts';
import type { ServerClock } from './server.ts';
import type { World } from './world.ts';

/** What it is called in its own errors, too. */
const FENCE = 'ledger';
/** A fence gives up on a resource that does not answer. */
const FENCE_TIMEOUT_MS = 400;

/** What a write does at the resource, and what it is called there. */
export type WriteBody = ((tx: MemoryTx) => Promise<{ readonly before: number; readonly after: number }>) & {
  readonly writeId: string;
};

type Watched = Fence<MemoryTx> & { readonly values: ReadonlyMap<string, unknown> };

/** The protected resource: a fence of this process, at the far end of every link, and a row for whatever it decides. */
export class FenceServer {
  readonly name = FENCE;
  readonly fence: Watched;
  readonly #world: World;

  constructor(world: World, clock: ServerClock, make: (clock: ServerClock) => Watched = fenceOf) {
    this.#world = world;
    this.fence = make(clock);
  }

  /** The version of the data, for whoever asks. */
  version(resource: string): number {
    return (this.fence.values.get(resource) as number | undefined) ?? 0;
  }

  async activate(grant: Grant): Promise<void> {
    await this.#judged('activate', grant, this.fence.activate(grant));
    this.#accepted('activate', grant);
  }

  async write(grant: Grant, body: WriteBody): Promise<unknown> {
    const { writeId } = body;
    const value = await this.#judged('write', grant, this.fence.write(grant, body), { writeId });
    this.#accepted('write', grant, { writeId, ...value });
    return value;
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    await this.fence.seal(resource, fencingToken);
    this.#world.row({ fence: this.name, resource, act: 'seal', leaseId: null, fencingToken, accepted: true });
  }

  async #judged<T>(act: FenceRow['act'], grant: Grant, work: Promise<T>, more: Partial<FenceRow> = {}): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof StaleTokenError) {
        this.#world.row({ fence: this.name, act, ...grant, ...more, accepted: false, highest: error.highest });
      }
      throw error;
    }
  }

  #accepted(act: FenceRow['act'], grant: Grant, more: Partial<FenceRow> = {}): void {
    this.#world.row({ fence: this.name, act, ...grant, ...more, accepted: true });
  }
}

function fenceOf(clock: ServerClock): MemoryFence {
  return new MemoryFence({ clock, name: FENCE });
}

/** The protected resource as one process reaches it. */
export class RemoteFence implements Fence<MemoryTx> {
  readonly name: string;
  readonly enforcing = true;
  readonly link: Link;
  readonly #world: World;
  readonly #process: SimProcess;
  readonly #host: FenceServer;
  readonly #timeoutMs: number;

  constructor(world: World, process: SimProcess, link: Link, host: FenceServer, timeoutMs: number = FENCE_TIMEOUT_MS) {
    this.name = host.name;
    this.link = link;
    this.#world = world;
    this.#process = process;
    this.#host = host;
    this.#timeoutMs = timeoutMs;
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    try {
      await this.#call(asked.resource, () => this.#host.activate(asked), 'stopped before an activation was sent');
    } catch (error) {
      throw reportRefusal(grant, error);
    }
  }

  async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
    const asked = grantForWrite(this, grant);
    try {
      const write = (): Promise<unknown> => this.#host.write(asked, body as unknown as WriteBody);
      return (await this.#call(asked.resource, write, 'stopped between the check and the write')) as T;
    } catch (error) {
      throw reportRefusal(grant, error);
    }
  }

  seal(resource: string, fencingToken: number): Promise<void> {
    return this.#call(resource, () => this.#host.seal(resource, fencingToken));
  }

  highest(resource: string): ReturnType<Fence['highest']> {
    return this.#call(resource, () => this.#host.fence.highest(resource));
  }

  /** The version of the data, past the fence. */
  version(resource: string): Promise<number> {
    return this.#call(resource, async () => this.#host.version(resource));
  }

  /** `place`: what it is to be stopped before it, of what changes the resource. */
  async #call<T>(resource: string, run: () => Promise<T>, place?: Place): Promise<T> {
    const process = this.#process;
    process.step(place);
    const outcome = await new Promise<Settled<T>>((resolve) => {
      const timer = process.setTimer(this.#timeoutMs, () => {
        resolve({ error: new FenceUnavailableError(resource, this.name, 'no answer in time') });
      });
      this.link.send('there', process.nowUs, undefined, () => {
        void settled(run()).then((answer) => {
          const isLost = !this.link.send('back', this.#world.nowUs, process, () => {
            timer.clear();
            resolve(answer);
          });
          if (isLost && place !== undefined && 'value' in answer) {
            this.#world.reach('a fence carried it out, and its answer did not come');
          }
        });
      });
    });
    if ('error' in outcome) throw outcome.error as Error;
    return outcome.value;
  }
}
