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
import { Tenure } from './tenure.ts';
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

  constructor(context: Context, releaser: Releaser) {
    this.#context = context;
    this.#releaser = releaser;
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

  /** A lease that somebody else has acquired, as the caller's own: `granted` is what the store made of the ticket. */
  takeOver(resource: string, settings: AcquireSettings, granted: Granted): Promise<Tenure | Refusal> {
    return this.#prepare(resource, settings, granted);
  }

  /** `granted` is what need not be asked for. */
  async #prepare(resource: string, settings: AcquireSettings, granted: Granted | undefined): Promise<Tenure | Refusal> {
    const { announcer, clock } = this.#context;
    const startedMs = clock.monotonicMs();
    try {
      const answer = granted ?? (await new Acquisition(this.#context, resource, settings, undefined).run());
      let tenure = this.#begin(resource, answer, settings);
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
    const { leaseId, stamp } = granted;
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
        dirty: granted.dirty,
        maxHoldMs: settings.maxHoldMs,
        job: settings.tick?.job ?? settings.job,
        tick: granted.tick,
        retentionMs: settings.retentionMs,
        ownerRecord: this.#context.ownerRecord,
        ownerJson: granted.ownerJson,
      },
      this.#context.engine.ownerClock,
      this.#context.announcer,
    );
    this.#context.tenures.add(tenure);
    this.#context.engine.keeper.keep(tenure);
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
        tenure.floor = Math.max(tenure.floor, stale.highest.fencingToken);
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
