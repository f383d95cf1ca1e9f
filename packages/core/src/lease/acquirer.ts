import {
  FenceUnavailableError,
  findStale,
  LeaseholdError,
  ManagerClosedError,
  ReentrantAcquireError,
  RunCancelledError,
  StoreUnavailableError,
  TokenOutOfRangeError,
} from '../errors.ts';
import type { Fence } from '../fence/fence.ts';
import { qualify } from '../names.ts';
import type { AcquireSettings } from '../options.ts';
import type { AcquireReply, AcquireRequest } from '../store/store.ts';
import type { Context } from './context.ts';
import { currentScope } from './current.ts';
import { failureOf, mayHaveRun } from './failure.ts';
import { newLeaseId } from './lease-id.ts';
import type { Refusal } from './refusal.ts';
import type { Releaser } from './releaser.ts';
import { Tenure } from './tenure.ts';
import { clamp, elapsedMs, trustedMs, type Stamp } from './term.ts';
import { TIMED_OUT, within } from './within.ts';

// Granted after its own window: the process was stopped or blocked in between. Once is bad luck, three times is a machine
// that cannot hold a lease of this length.
const LATE_GRANTS = 3;
// A tombstone outlives any packet of its leaseId that may still be under way.
const MIN_TOMBSTONE_MS = 60_000;

export function isRefusal(value: Tenure | Refusal): value is Refusal {
  return !(value instanceof Tenure);
}

function throwIfAborted(resource: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new RunCancelledError(resource, 'caller', undefined, signal.reason);
}

/** Brings an acquisition from the first question to a tenure whose fences are activated, or to a refusal. */
export class Acquirer {
  readonly #context: Context;
  readonly #releaser: Releaser;

  constructor(context: Context, releaser: Releaser) {
    this.#context = context;
    this.#releaser = releaser;
  }

  async obtain(resource: string, settings: AcquireSettings): Promise<Tenure | Refusal> {
    const { closing, store, announcer } = this.#context;
    if (closing) throw new ManagerClosedError(resource);
    store.checkName('resource', resource);
    if (!settings.detached) this.#refuseReentrance(resource);
    throwIfAborted(resource, settings.signal);
    let tenure = await this.#ask(resource, settings, undefined);
    if (!isRefusal(tenure) && settings.fences.length > 0) tenure = await this.#activate(tenure, settings);
    if (isRefusal(tenure)) announcer.refusal(resource, settings.tick?.job, tenure);
    else announcer.acquired(tenure);
    return tenure;
  }

  /** An enclosing body that holds the resource would wait for itself. Bodies that have settled no longer enclose. */
  #refuseReentrance(resource: string): void {
    let scope = currentScope();
    if (scope === undefined) return;
    const qualified = qualify(this.#context.store.namespace, resource);
    for (; scope !== undefined; scope = scope.enclosing) {
      if (!scope.settled && scope.lease.grant.resource === qualified && scope.lease.isHeld()) {
        throw new ReentrantAcquireError(resource);
      }
    }
  }

  /** One acquisition at the store, in place of `replaced` if given; the keeper has it when this resolves. */
  async #ask(resource: string, settings: AcquireSettings, replaced: Tenure | undefined): Promise<Tenure | Refusal> {
    const { timing } = settings;
    for (let late = 0; late < LATE_GRANTS; late++) {
      const leaseId = newLeaseId();
      const request = this.#request(resource, leaseId, settings, replaced);
      let stamp: Stamp | undefined;
      let reply: AcquireReply;
      try {
        reply = await this.#context.store.acquire(request, {
          timeoutMs: timing.callTimeoutMs,
          sent: () => (stamp = this.#context.engine.ownerClock.stamp()),
        });
      } catch (error) {
        const failure = failureOf(error, resource);
        // It may become owner yet, or be it already: nobody else could enter for a ttl.
        if (mayHaveRun(failure)) this.#withdraw(request, Math.max(MIN_TOMBSTONE_MS, timing.ttlMs));
        throw failure;
      }
      switch (reply.kind) {
        case 'granted': {
          const sent = stamp ?? this.#context.engine.ownerClock.stamp();
          const trusted = trustedMs(Math.min(timing.ttlMs, reply.remainingMs), timing);
          if (trusted <= elapsedMs(this.#context.engine.ownerClock.since(sent))) break;
          if (settings.signal?.aborted === true || this.#context.closing) {
            this.#withdraw(request, 0);
            throwIfAborted(resource, settings.signal);
            throw new ManagerClosedError(resource);
          }
          return this.#begin(resource, leaseId, reply, sent, settings);
        }
        case 'busy':
        case 'queued':
          return { reason: reply.reason, holder: reply.holder, remainingMs: reply.remainingMs };
        case 'tick':
          return { reason: reply.reason, holder: null, remainingMs: reply.aheadMs };
        case 'out-of-range':
          throw new TokenOutOfRangeError(resource, reply.fencingToken, `the store ${this.#context.store.description}`);
        case 'spent':
        case 'cancelled':
          // This leaseId is new, so its own packet must have come long ago and its answer now: late, like the rest.
          break;
      }
      this.#withdraw(request, 0);
    }
    throw new StoreUnavailableError(
      `answers arrive only after the lease has run out (${LATE_GRANTS} times; ttl ${timing.ttlMs} ms); look for a blocked event loop or a slow network, or raise ttl`,
      { resource, mayHaveRun: false },
    );
  }

  #request(resource: string, leaseId: string, settings: AcquireSettings, replaced: Tenure | undefined): AcquireRequest {
    const { ttlMs } = settings.timing;
    return {
      resource,
      leaseId,
      ttlMs,
      mode: 'try',
      owner: this.#context.ownerRecord,
      channel: '',
      floor: replaced?.floor ?? 0,
      replaces: replaced?.grant.leaseId ?? '',
      waitRefreshMs: clamp(ttlMs / 3, 250, 10_000),
      quarantineMs: 0,
      tick: settings.tick,
    };
  }

  #begin(
    resource: string,
    leaseId: string,
    granted: { readonly fencingToken: number; readonly remainingMs: number },
    stamp: Stamp,
    settings: AcquireSettings,
  ): Tenure {
    // Frozen, because fences compare by it and it is handed to everyone.
    const grant = Object.freeze({
      resource: qualify(this.#context.store.namespace, resource),
      fencingToken: granted.fencingToken,
      leaseId,
    });
    const tenure = new Tenure(
      {
        resource,
        grant,
        timing: settings.timing,
        stamp,
        remainingMs: granted.remainingMs,
        maxHoldMs: settings.maxHoldMs,
        job: settings.tick?.job,
      },
      this.#context.engine.ownerClock,
      this.#context.announcer,
    );
    this.#context.tenures.add(tenure);
    this.#context.engine.keeper.keep(tenure);
    return tenure;
  }

  /** Takes back an acquisition that comes to nothing, in the background, until the store has confirmed it. */
  #withdraw(request: AcquireRequest, tombstoneMs: number): void {
    const { resource, leaseId, ttlMs } = request;
    const { callTimeoutMs } = this.#context.settings.timing;
    const job = request.tick?.job;
    void this.#context.engine.settler.add(
      () =>
        this.#context.store.cancel(
          { resource, leaseId, outcome: 'not-started', floor: 0, job, tombstoneMs },
          { timeoutMs: callTimeoutMs },
        ),
      Math.max(tombstoneMs, ttlMs),
    );
  }

  /** Activates all fences in the order of their names. A stale token is answered once by a new one above the fence's. */
  async #activate(first: Tenure, settings: AcquireSettings): Promise<Tenure | Refusal> {
    let tenure = first;
    for (let replaced = false; ; replaced = true) {
      try {
        if (!settings.onWrite) {
          for (const fence of settings.fences) await this.#activateOne(tenure, fence, settings);
        }
        tenure.assertHeld();
        throwIfAborted(tenure.resource, settings.signal);
        tenure.fences = settings.fences;
        return tenure;
      } catch (error) {
        if (findStale(error) === undefined || replaced) {
          await this.#releaser.release(tenure, 'not-started');
          throw error;
        }
        const next = await this.#replace(tenure, settings);
        if (isRefusal(next)) return next;
        tenure = next;
      }
    }
  }

  async #activateOne(tenure: Tenure, fence: Fence, settings: AcquireSettings): Promise<void> {
    const unavailable = (detail: string, cause?: unknown): FenceUnavailableError =>
      new FenceUnavailableError(tenure.resource, fence.name, detail, cause);
    let result: void | typeof TIMED_OUT;
    try {
      // Called in a promise, so that a fence that throws at once is no different from one that rejects.
      const activation = Promise.resolve().then(() => fence.activate(tenure.grant));
      result = await within(this.#context.clock, activation, settings.activateTimeoutMs);
    } catch (error) {
      const stale = findStale(error);
      if (stale !== undefined) {
        tenure.floor = Math.max(tenure.floor, stale.highest.fencingToken);
        this.#context.announcer.refused(tenure, stale);
        throw stale;
      }
      throw error instanceof LeaseholdError ? error : unavailable('activation failed', error);
    }
    if (result === TIMED_OUT) throw unavailable(`no answer to the activation within ${settings.activateTimeoutMs} ms`);
    tenure.assertHeld();
  }

  /** One step at the store: a new leaseId with a token above what the fence has admitted, keeping place and tick. */
  async #replace(old: Tenure, settings: AcquireSettings): Promise<Tenure | Refusal> {
    // From here on nothing that is said of the old leaseId matters.
    this.#context.engine.keeper.drop(old);
    let next: Tenure | Refusal;
    try {
      next = await this.#ask(old.resource, settings, old);
    } catch (error) {
      await this.#releaser.release(old, 'not-started');
      throw error;
    }
    if (isRefusal(next)) {
      await this.#releaser.release(old, 'not-started');
      return next;
    }
    old.end();
    this.#context.tenures.delete(old);
    return next;
  }
}
