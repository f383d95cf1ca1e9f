import {
  FenceUnavailableError,
  findStale,
  LeaseholdError,
  ManagerClosedError,
  ReentrantAcquireError,
} from '../errors.ts';
import type { Fence } from '../fence/fence.ts';
import { qualify } from '../names.ts';
import type { AcquireSettings } from '../options.ts';
import { messageOf } from '../thrown.ts';
import { throwIfAborted } from './aborted.ts';
import { Acquisition, type Granted } from './acquisition.ts';
import type { Context } from './context.ts';
import { failureOf } from './failure.ts';
import { currentScope } from './current.ts';
import type { Refusal } from './refusal.ts';
import type { Releaser } from './releaser.ts';
import type { Lingerer } from './lingerer.ts';
import { Tenure, type TenureOwner, type TenureStart } from './tenure.ts';
import { trustedMs } from './term.ts';
import { TIMED_OUT, within } from './within.ts';

export function isRefusal(value: Tenure | Refusal): value is Refusal {
  return !(value instanceof Tenure);
}

/** A tick that came over with a ticket goes over to the next leaseId as well, and is claimed in no other way. */
function withClaimOf({ job, tick }: Tenure, settings: AcquireSettings): AcquireSettings {
  if (settings.tick !== undefined || tick === null || job === undefined) return settings;
  const { at, attempt } = tick;
  return { ...settings, tick: { job, at, startingDeadlineMs: 0, maxAheadMs: 0, retry: attempt - 1 } };
}

/** Brings an acquisition from the first question to a tenure whose fences are activated, or to a refusal. */
export class Acquirer {
  readonly #context: Context;
  readonly #releaser: Releaser;
  readonly #lingerer: Lingerer;
  readonly #owner: TenureOwner;

  constructor(context: Context, releaser: Releaser, lingerer: Lingerer) {
    this.#context = context;
    this.#releaser = releaser;
    this.#lingerer = lingerer;
    const { engine, announcer, ownerRecord } = context;
    this.#owner = { clock: engine.ownerClock, observer: announcer, record: ownerRecord };
  }

  /** What is wrong with the call is thrown; what comes later rejects. */
  obtain(resource: string, settings: AcquireSettings): Promise<Tenure | Refusal> {
    const { closing, store } = this.#context;
    if (closing) throw new ManagerClosedError(resource);
    store.checkName('resource', resource);
    if (!settings.detached) this.#refuseReentrance(resource);
    throwIfAborted(resource, settings.signal);
    return this.#prepare(resource, settings, undefined);
  }

  /**
   * A lease that lingers here, at once, if nothing has to be asked for it; else undefined, and `obtain` says what there is.
   * For settings that are detached and have no signal.
   */
  obtainNow(resource: string, settings: AcquireSettings): Tenure | undefined {
    const { closing, announcer, clock } = this.#context;
    if (closing || settings.fences.length > 0) return undefined;
    const startedMs = clock.monotonicMs();
    const tenure = this.#goOn(resource, settings, startedMs);
    if (tenure !== undefined) announcer.acquired(tenure, startedMs);
    return tenure;
  }

  /** A lease that somebody else has acquired, as the caller's own: `granted` is what the store made of the ticket. */
  takeOver(resource: string, settings: AcquireSettings, granted: Granted): Promise<Tenure | Refusal> {
    return this.#prepare(resource, settings, granted);
  }

  /** `granted` is what need not be asked for. */
  async #prepare(resource: string, settings: AcquireSettings, granted: Granted | undefined): Promise<Tenure | Refusal> {
    const { announcer, clock } = this.#context;
    const startedMs = clock.monotonicMs();
    try {
      let tenure: Tenure | Refusal | undefined =
        granted === undefined ? this.#goOn(resource, settings, startedMs) : undefined;
      if (tenure === undefined) {
        const isTry = granted === undefined && settings.waitMs === 0;
        const leaving = isTry ? this.#lingerer.leaving(resource) : undefined;
        if (leaving !== undefined) await within(clock, leaving, settings.timing.callTimeoutMs);
        const answer = granted ?? (await new Acquisition(this.#context, resource, settings, undefined).run());
        tenure = this.#begin(resource, answer, settings);
      }
      if (!isRefusal(tenure) && settings.fences.length > 0) tenure = await this.#activate(tenure, settings);
      if (isRefusal(tenure)) announcer.refusal(resource, settings.tick?.job, tenure);
      else announcer.acquired(tenure, startedMs);
      return tenure;
    } catch (error) {
      announcer.acquireFailed(resource, failureOf(error, resource), startedMs);
      throw error;
    }
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

  /** What was granted becomes a tenure, and the keeper's. */
  #begin(resource: string, granted: Granted | Refusal, settings: AcquireSettings): Tenure | Refusal {
    if (!('stamp' in granted)) return granted;
    const { leaseId, fencingToken, stamp, remainingMs, dirty, tick, ownerJson, spare } = granted;
    const { timing } = settings;
    return this.#hold(resource, settings, {
      grant: { resource: qualify(this.#context.store.namespace, resource), fencingToken, leaseId },
      startedMs: stamp.monotonicMs,
      stamp,
      windowMs: trustedMs(Math.min(timing.ttlMs, remainingMs), timing),
      dirty,
      tick,
      ownerJson,
      spare,
    });
  }

  /** A lease that lingers here goes on in new hands, with the next of its tokens; undefined if there is none. */
  #goOn(resource: string, settings: AcquireSettings, startedMs: number): Tenure | undefined {
    const last = this.#lingerer.take(resource, settings);
    if (last?.spare === undefined) return undefined;
    const { grant, ownerJson, spare } = last;
    spare.tokens--;
    const { stamp, windowMs } = last.confirmation();
    return this.#hold(resource, settings, {
      grant: { resource: grant.resource, fencingToken: grant.fencingToken + 1, leaseId: grant.leaseId },
      startedMs,
      stamp,
      windowMs,
      dirty: false,
      tick: null,
      ownerJson,
      spare,
    });
  }

  #hold(resource: string, settings: AcquireSettings, start: TenureStart): Tenure {
    const { tenures, engine } = this.#context;
    // Fences compare by it, and it is handed to everyone.
    Object.freeze(start.grant);
    const tenure = new Tenure(resource, settings, start, this.#owner);
    tenures.add(tenure);
    engine.keeper.keep(tenure);
    return tenure;
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
        tenure.raiseFloor(stale.highest.fencingToken);
        this.#context.announcer.refused(tenure, stale);
        throw stale;
      }
      throw LeaseholdError.of(error) ?? unavailable(`activation failed: ${messageOf(error)}`, error);
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
      const again = withClaimOf(old, settings);
      next = this.#begin(old.resource, await new Acquisition(this.#context, old.resource, again, old).run(), again);
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
