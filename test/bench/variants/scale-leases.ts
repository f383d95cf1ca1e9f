// One of many processes that hold leases: what keeping them costs it, how late each extension is, and whether one is lost.
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendItem,
  type ExtendVerdict,
  type Lease,
  LeaseholdError,
  LeaseManager,
  type StoreCall,
} from '@leasehold/core';
import { RedisLeaseStore, type RedisSource } from '@leasehold/core/redis';
import { Cluster } from 'ioredis';

import { heapUsed } from '../heap-used.ts';
import { inFlight, measured, type Measured, type Side } from '../side.ts';

export interface ScaleLeasesSetup {
  readonly url: string;
  /** A Cluster, in place of the URL. */
  readonly cluster?: readonly { readonly host: string; readonly port: number }[];
  /** So many at most. */
  readonly count: number;
  /** Names begin with it: each process has names of its own. */
  readonly name: string;
  readonly ttlMs: number;
}

export interface Held {
  readonly ms: number;
  /** Of all, those that got no answer in time. */
  readonly refused: number;
}

export interface Extended extends Measured {
  readonly extensions: number;
  readonly calls: number;
  /** Of a lease: when it was confirmed, less when that was due; negative if it went along with others before. */
  readonly lateMs: Float32Array;
  /** The least that was left of an owner's trust when it was confirmed, as part of the whole. */
  readonly leastTrust: number;
  readonly worstCallMs: number;
  /** Since the beginning. */
  readonly lost: number;
  readonly unanswered: number;
  /** By `adviseTiming`. */
  readonly shortestTtlMs: number;
}

const AT_ONCE = 50;
/** Of a third. */
const REFRESH_RATIO = 3;

class WatchedStore extends RedisLeaseStore {
  calls = 0;
  late: number[] = [];
  leastTrust = 1;
  worstCallMs = 0;
  readonly #first: number;
  /** When the last confirmation was asked for, by the number at the end of the name. */
  readonly #sentMs: Float64Array;

  constructor(source: RedisSource, { name, count }: Pick<ScaleLeasesSetup, 'name' | 'count'>) {
    super(source);
    this.#first = name.length;
    this.#sentMs = new Float64Array(count);
  }

  begin(): void {
    [this.calls, this.late, this.leastTrust, this.worstCallMs] = [0, [], 1, 0];
  }

  override acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    const sent = (): void => {
      this.#sentMs[this.#place(request.resource)] = performance.now();
      call.sent?.();
    };
    return super.acquire(request, { ...call, sent });
  }

  override async extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    let sentMs = performance.now();
    const sent = (): void => {
      sentMs = performance.now();
      call.sent?.();
    };
    const verdicts = await super.extend(items, { ...call, sent });
    const nowMs = performance.now();
    this.calls++;
    this.worstCallMs = Math.max(this.worstCallMs, nowMs - sentMs);
    for (const [index, { resource, ttlMs }] of items.entries()) {
      if (verdicts[index]?.verdict !== 'extended') continue;
      const place = this.#place(resource);
      const ageMs = nowMs - (this.#sentMs[place] as number);
      this.#sentMs[place] = sentMs;
      this.late.push(ageMs - ttlMs / REFRESH_RATIO);
      this.leastTrust = Math.min(this.leastTrust, 1 - ageMs / ttlMs);
    }
    return verdicts;
  }

  #place(resource: string): number {
    return Number(resource.slice(this.#first));
  }
}

/** A short ttl leaves little time for a call. */
function noAnswer(error: unknown): undefined {
  if (!LeaseholdError.is(error, 'STORE_UNAVAILABLE')) throw error;
}

export async function open(setup: ScaleLeasesSetup): Promise<Side> {
  const cluster = setup.cluster === undefined ? undefined : new Cluster([...setup.cluster], { lazyConnect: true });
  const store = new WatchedStore(cluster ?? setup.url, setup);
  const leases = new LeaseManager({ store, ttl: setup.ttlMs });
  let [lost, unanswered] = [0, 0];
  leases.on('lost', () => lost++);
  leases.on('extendFailed', () => unanswered++);
  let held: (Lease | undefined)[] = [];
  return {
    /** Goes on until so many are held. */
    async hold({ count, ttlMs }: { readonly count: number; readonly ttlMs?: number }): Promise<Held> {
      const options = ttlMs === undefined ? undefined : { ttl: ttlMs };
      let next = held.length;
      const more = count - next;
      const list = [...held, ...Array.from<Lease | undefined>({ length: more })];
      const { ms } = await measured(() =>
        inFlight(AT_ONCE, more, async () => {
          const place = next++;
          list[place] = await leases.acquire(`${setup.name}${place}`, options).catch(noAnswer);
        }),
      );
      held = list;
      const refused = list.filter((lease) => lease === undefined).length;
      return { ms, refused };
    },
    async keep({ ms }: { readonly ms: number }): Promise<Extended> {
      store.begin();
      const its = await measured(() => new Promise((resolve) => setTimeout(resolve, ms)));
      const { late, calls, leastTrust, worstCallMs } = store;
      store.begin();
      const { shortestTtlMs } = leases.adviseTiming();
      return {
        ...its,
        ...{ extensions: late.length, lateMs: Float32Array.from(late), calls, leastTrust, worstCallMs },
        ...{ lost, unanswered, shortestTtlMs },
      };
    },
    /** Not before something is measured: collecting garbage also drops compiled code. */
    heap: () => heapUsed(),
    async drop(): Promise<void> {
      const list = held;
      held = [];
      await inFlight(AT_ONCE, list.length, async () => list.pop()?.release());
    },
    async close(): Promise<void> {
      await leases.close({ grace: 0 });
      cluster?.disconnect();
    },
  };
}
