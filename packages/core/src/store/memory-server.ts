import type { Clock } from '../clock.ts';
import { EMPTY, remembered, type Decision, type ResourceState } from './state.ts';
import type { StoreMessage } from './store.ts';

type Listener = (message: StoreMessage) => void;

/** Readings this much earlier than one before it are a clock set back, not two readings within one tick of it. */
const SET_BACK_US = 1_000_000;

/** With fewer resources than these nothing is looked through for what may be forgotten. */
const FEW = 1000;

/** What memory stores that belong together share: the data, the clock and the channels. */
export class MemoryServer {
  readonly resources: Map<string, ResourceState> = new Map();
  /** With so many resources it is time to look through them again. */
  #crowd = FEW;
  readonly #clock: Clock;
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #restarted = new Set<() => void>();
  /** No instant before this one, unless the clock has been set back. */
  #notBeforeUs = 0;
  #startedMs: number;
  #life = 1;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedMs = clock.monotonicMs();
  }

  /** Another number after each restart. */
  get life(): number {
    return this.#life;
  }

  ageMs(): number {
    return this.#clock.monotonicMs() - this.#startedMs;
  }

  wallMs(): number {
    return this.#clock.wallMs();
  }

  nowUs(): number {
    const us = Math.trunc(this.#clock.wallUs());
    const notBeforeUs = this.#notBeforeUs;
    return us < notBeforeUs && notBeforeUs - us < SET_BACK_US ? notBeforeUs : us;
  }

  /** What is still known of a resource. */
  state(resource: string, nowUs: number): ResourceState {
    const stored = this.resources.get(resource);
    return stored === undefined ? EMPTY : remembered(stored, nowUs);
  }

  decide<Reply>(resource: string, nowUs: number, decide: (state: ResourceState) => Decision<Reply>): Reply {
    const { state, reply, messages } = decide(this.state(resource, nowUs));
    if (this.resources.has(resource) || !isEmpty(state)) this.resources.set(resource, state);
    if (this.resources.size > this.#crowd) this.#forget(nowUs);
    for (const { channel, kind, leaseId, afterMs } of messages) {
      for (const listener of this.#listeners.get(channel) ?? []) {
        // Never before the reply, and never into the way of the one who asked.
        queueMicrotask(() => queueMicrotask(() => listener({ kind, resource, leaseId, afterMs })));
      }
    }
    return reply;
  }

  /** Each time there are twice as many, so that it costs little for each of them. */
  #forget(nowUs: number): void {
    for (const [resource, stored] of this.resources) {
      const state = remembered(stored, nowUs);
      if (isEmpty(state)) this.resources.delete(resource);
      else if (state !== stored) this.resources.set(resource, state);
    }
    this.#crowd = Math.max(FEW, 2 * this.resources.size);
  }

  listen(channel: string, listener: Listener): () => void {
    const ours = this.#listeners.get(channel) ?? new Set();
    // One of its own, so that the same function may listen twice.
    const own: Listener = (message) => listener(message);
    this.#listeners.set(channel, ours.add(own));
    return () => {
      ours.delete(own);
      if (ours.size === 0 && this.#listeners.get(channel) === ours) this.#listeners.delete(channel);
    };
  }

  onRestart(listener: () => void): () => void {
    const own = (): void => listener();
    this.#restarted.add(own);
    return () => void this.#restarted.delete(own);
  }

  flush(resource?: string): void {
    let lastUs = this.nowUs();
    for (const { lease } of this.resources.values()) lastUs = Math.max(lastUs, lease?.fencingToken ?? 0);
    this.#notBeforeUs = lastUs + 1;
    if (resource === undefined) this.resources.clear();
    else this.resources.delete(resource);
  }

  restart(persistent: boolean): void {
    this.#life++;
    this.#startedMs = this.#clock.monotonicMs();
    if (!persistent) this.flush();
    for (const listener of this.#restarted) queueMicrotask(listener);
  }
}

function isEmpty(state: ResourceState): boolean {
  const { lease, queue, parked, tombstones, ticks, log } = state;
  return lease === null && queue.length + parked.length + tombstones.length + ticks.size + log.length === 0;
}
