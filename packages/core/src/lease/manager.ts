import { ConfigError, ManagerClosedError, type LossReason } from '../errors.ts';
import { refusalIn } from '../fence/fence.ts';
import { onAbort } from '../abort-listeners.ts';
import { ManagerEmitter } from '../events.ts';
import {
  parseAcquireOptions,
  parseCloseOptions,
  historySchema,
  parseManagerOptions,
  parseOptions,
  parseRevokeOptions,
  runsSchema,
  type AcquireOptions,
  type AcquireSettings,
  type AdoptOptions,
  type CloseOptions,
  type LeaseManagerOptions,
  type RevokeOptions,
} from '../options.ts';
import { ownerIdentity, type OwnerIdentity, type OwnerVitals } from '../owner.ts';
import { show } from '../show.ts';
import { Acquirer, isRefusal } from './acquirer.ts';
import { Announcer } from './announcer.ts';
import { Closer, type Unsettled } from './closer.ts';
import type { Context } from './context.ts';
import { currentScope, inScope, type Scope } from './current.ts';
import { joinEngine } from './engine.ts';
import { describeTenure, type HeldLease } from './held.ts';
import { groundOf, type Ground } from './ground.ts';
import { HandOver } from './hand-over.ts';
import { describeEvent, describeRecord, type HistoryEntry, type LeaseInfo, type TickInfo } from './info.ts';
import { Jobs, type JobSide } from './jobs.ts';
import { Lease, type LeaseKeeping } from './lease.ts';
import { Lingerer } from './lingerer.ts';
import { cancelReasonOf, lossOfRun, outcomeOf } from './outcome.ts';
import { OwnerRecord } from './owner-record.ts';
import { PauseWarner } from './pause-warner.ts';
import { refusalError, type Refusal } from './refusal.ts';
import { Releaser } from './releaser.ts';
import type { Tenure } from './tenure.ts';
import { parseTicket, type Ticket } from './ticket.ts';
import { adviseTiming, type TimingAdvice } from './timing-advice.ts';

export type TryAcquireResult = (
  | { readonly acquired: true; readonly lease: Lease }
  | ({ readonly acquired: false } & Refusal)
) &
  AsyncDisposable;

export type TryRunResult<T> = { readonly ran: true; readonly value: T } | ({ readonly ran: false } & Refusal);

export type RunBody<T> = (lease: Lease) => T | Promise<T>;

/** What `revoke` came to. All but `revoked` changed nothing: there was no such owner (any more). */
export interface RevokeResult {
  readonly outcome: 'revoked' | 'free' | LossReason;
  /** The owner's line, as the record had it. */
  readonly owner: string;
  /** Until the owner is out at the latest, if it was revoked. */
  readonly remainingMs: number;
}

export interface CloseResult {
  readonly unsettled: readonly Unsettled[];
}

/** The front door: acquires leases, keeps them, runs bodies under them. One for each store is enough; it is shareable. */
export class LeaseManager extends ManagerEmitter implements AsyncDisposable {
  readonly #context: Context;
  readonly #acquirer: Acquirer;
  readonly #releaser: Releaser;
  readonly #lingerer: Lingerer;
  readonly #handOver: HandOver;
  readonly #closer: Closer;
  readonly #parked: (resource: string) => void;
  readonly #owner: OwnerIdentity;
  readonly #keeping: LeaseKeeping;
  #closed: Promise<CloseResult> | undefined;
  /** What adapters run the jobs of a queue with; not for users. */
  readonly jobs: Jobs;

  /** Throws `ConfigError` for options that cannot work. Connects to nothing: the store does, on its first use. */
  constructor(options: LeaseManagerOptions) {
    super();
    const settings = parseManagerOptions(options);
    const { store, clock, logger, timing } = settings;
    this.#owner = ownerIdentity(settings.owner);
    const { engine, leave } = joinEngine(store, clock);
    this.#context = {
      settings,
      store,
      clock,
      engine,
      announcer: new Announcer(
        {
          listens: (event) => this.listens(event),
          announce: (event, payload) => this.announce(logger, event, payload),
        },
        logger,
        clock,
      ),
      ownerRecord: new OwnerRecord(this.#owner, engine.vitals),
      tenures: new Set(),
      asked: new Map(),
      waiting: new Set(),
      closing: false,
    };
    const warner = new PauseWarner(this.#context);
    this.#closer = new Closer(this.#context, async () => {
      warner.end();
      engine.parked.delete(this.#parked);
      await leave();
    });
    this.#parked = (resource) => this.announce(logger, 'free', { resource });
    engine.parked.add(this.#parked);
    this.#handOver = new HandOver(this.#context);
    this.#lingerer = new Lingerer(this.#context, (tenure) => this.#releaser.giveBack(tenure));
    this.#releaser = new Releaser(this.#context, this.#lingerer, () => this.#closer.checkIdle());
    this.#acquirer = new Acquirer(this.#context, this.#releaser, this.#lingerer);
    this.#keeping = {
      owner: this.#owner,
      release: (tenure) => this.#releaser.release(tenure, 'done'),
      handOver: async (tenure) => {
        const ticket = await this.#handOver.give(tenure);
        this.#closer.checkIdle();
        return ticket;
      },
    };
    this.jobs = new Jobs({
      prepare: (given) => parseAcquireOptions(given, settings),
      obtain: (resource, given) => this.#obtain(resource, given),
      obtainNow: (resource, given) => this.#acquirer.obtainNow(resource, given),
      runBody: (...args) => this.#runBody(...args),
      giveBack: (tenure) => this.#releaser.release(tenure, 'not-started'),
      settle: () => this.#lingerer.settle(),
    });
    this.#context.announcer.opened(timing, store.description);
  }

  /** The store's prefix: `<namespace>/<resource>` is what fences know a resource by. */
  get namespace(): string {
    return this.#context.store.namespace;
  }

  get owner(): OwnerIdentity {
    return this.#owner;
  }

  /**
   * Acquires, activates the fences, runs `body`, waits until it has settled, releases; then others can acquire. Resolves
   * with the body's value, also if it was cancelled but still held; rejects with the body's own error, with
   * `LeaseLostError` (`settled` has what the body came to) if the lease was lost before the body settled, and before the
   * body with `ResourceBusyError`, `TickRefusedError`, `ReentrantAcquireError`, `StaleTokenError`,
   * `FenceUnavailableError`, `TokenOutOfRangeError`, `StoreUnavailableError`, `StoreAuthError`, `StoreVersionError`,
   * `ForeignKeyError`, `ManagerClosedError`, `RunCancelledError` (the caller's signal) or `ConfigError`.
   */
  run<T>(resource: string, body: RunBody<T>): Promise<T>;
  run<T>(resource: string, options: AcquireOptions, body: RunBody<T>): Promise<T>;
  async run<T>(resource: string, second: AcquireOptions | RunBody<T>, third?: RunBody<T>): Promise<T> {
    const { settings, body } = this.#runArguments(second, third);
    const tenure = await this.#obtain(resource, settings);
    if (isRefusal(tenure)) throw refusalError(resource, tenure, settings.waitMs > 0);
    return this.#runBody(tenure, settings, body);
  }

  /** As `run`, but busy and a refused tick are values: `{ ran: false, reason, holder, remainingMs, aheadMs }`. */
  tryRun<T>(resource: string, body: RunBody<T>): Promise<TryRunResult<T>>;
  tryRun<T>(resource: string, options: AcquireOptions, body: RunBody<T>): Promise<TryRunResult<T>>;
  async tryRun<T>(resource: string, second: AcquireOptions | RunBody<T>, third?: RunBody<T>): Promise<TryRunResult<T>> {
    const { settings, body } = this.#runArguments(second, third);
    const tenure = await this.#obtain(resource, settings);
    if (isRefusal(tenure)) return { ran: false, ...tenure };
    return { ran: true, value: await this.#runBody(tenure, settings, body) };
  }

  /**
   * A lease to be released by the caller, best with `await using`. Rejects as `run` does before its body. The caller's
   * signal ends the acquisition, not the lease.
   */
  async acquire(resource: string, options?: AcquireOptions): Promise<Lease> {
    const settings = parseAcquireOptions(options, this.#context.settings);
    const tenure = await this.#obtain(resource, settings);
    if (isRefusal(tenure)) throw refusalError(resource, tenure, settings.waitMs > 0);
    return new Lease(tenure, this.#keeping);
  }

  /** As `acquire`, but busy and a refused tick are values. The result can be given to `await using` either way. */
  async tryAcquire(resource: string, options?: AcquireOptions): Promise<TryAcquireResult> {
    const tenure = await this.#obtain(resource, parseAcquireOptions(options, this.#context.settings));
    if (isRefusal(tenure)) return { acquired: false, ...tenure, [Symbol.asyncDispose]: async () => {} };
    const lease = new Lease(tenure, this.#keeping);
    return { acquired: true, lease, [Symbol.asyncDispose]: () => lease[Symbol.asyncDispose]() };
  }

  /**
   * Turns the ticket of `lease.handOver()` into a lease with a new leaseId and a larger token, and activates its fences;
   * the old holder's writes are refused from then on. Rejects with `LeaseLostError` (`superseded` for all but the first
   * who adopts, `expired` after the ttl), `ConfigError` for what is no ticket, and as `acquire` does.
   */
  async adopt(ticket: Ticket, options?: AdoptOptions): Promise<Lease> {
    const { settings, store } = this.#context;
    const checked = parseTicket(ticket, store.namespace);
    const { resource, job, retentionMs } = checked;
    store.checkName('ticket.resource', resource);
    const given = parseAcquireOptions({ ttl: checked.ttlMs, ...options }, settings);
    const adoption: AcquireSettings = { ...given, job, retentionMs, detached: true };
    this.#closer.acquiring();
    try {
      const tenure = await this.#acquirer.takeOver(resource, adoption, await this.#handOver.take(checked, adoption));
      if (isRefusal(tenure)) throw refusalError(resource, tenure, false);
      return new Lease(tenure, this.#keeping);
    } finally {
      this.#closer.acquired();
    }
  }

  /**
   * Asks the owner of a resource to end its run: it is cancelled (`RunCancelledError`, reason `revoked`) within
   * milliseconds, or within a refresh interval where messages are lost; it extends no more; it releases when its body has
   * settled, and is out when its ttl has passed. Nobody enters before, so this is safe without any fence.
   *
   * With `leaseId` only if that is the owner still. Resolves with `revoked`, or with why there is nothing to revoke.
   */
  async revoke(resource: string, options?: RevokeOptions): Promise<RevokeResult> {
    this.#checkOpen(resource);
    const { settings, store, ownerRecord } = this.#context;
    const { leaseId, operator = ownerRecord.line, reason = '' } = parseRevokeOptions(options);
    const call = { timeoutMs: settings.timing.callTimeoutMs };
    const record = await store.read(resource, call);
    if (record === null || record.state === 'free') return { outcome: 'free', owner: '', remainingMs: 0 };
    const { owner } = record;
    const target = leaseId ?? record.leaseId;
    const reply = await store.revoke({ resource, leaseId: target, operator, reason }, call);
    if (reply.kind === 'revoked') return { outcome: 'revoked', owner, remainingMs: reply.remainingMs };
    return { outcome: reply.reason, owner, remainingMs: 0 };
  }

  /** Every resource that the store has a record of, in no order; as advisory as `inspect`. */
  async *list(): AsyncGenerator<LeaseInfo, void, undefined> {
    this.#checkOpen();
    const { store, settings } = this.#context;
    for await (const { resource, record } of store.list({ timeoutMs: settings.timing.callTimeoutMs })) {
      yield describeRecord(resource, record);
    }
  }

  /** What has happened to a resource, the newest first: exceptional events, or all with `history: 'all'` of the managers. */
  async history(resource: string, options: { readonly limit?: number } = {}): Promise<readonly HistoryEntry[]> {
    this.#checkOpen(resource);
    const { store, settings } = this.#context;
    const { limit = 64 } = parseOptions(historySchema, options);
    const events = await store.history(resource, limit, { timeoutMs: settings.timing.callTimeoutMs });
    return events.map(describeEvent);
  }

  /**
   * The last claim of a job and the one before it, the newest first: of two ticks, or of one that was tried again. The
   * resource defaults to the job's name. A claim whose process died stays `claimed`.
   */
  async runs(job: string, options: { readonly resource?: string } = {}): Promise<readonly TickInfo[]> {
    const { resource = job } = parseOptions(runsSchema, options);
    this.#checkOpen(resource);
    const { store, settings } = this.#context;
    store.checkName('job', job);
    const ticks = await store.ticks(resource, job, { timeoutMs: settings.timing.callTimeoutMs });
    return ticks.map(({ at, ...tick }) => ({ tick: new Date(at), ...tick }));
  }

  /** The leases of this manager as its own clocks see them now, those that are lost and whose body still runs among them. */
  held(): readonly HeldLease[] {
    return [...this.#context.tenures].map(describeTenure);
  }

  /** What this process has measured of itself while it held leases of this store; also in their records (`inspect`). */
  vitals(): OwnerVitals {
    return this.#context.engine.vitals.now();
  }

  /**
   * The shortest safe ttl on what was measured so far, and what is wrong with that of this manager. `multiplier`: how many
   * times the measured worst must fit, 1 to 100, default 2. Throws `ConfigError` for any other.
   */
  adviseTiming(options: { readonly multiplier?: number } = {}): TimingAdvice {
    const { timing, timingOptions } = this.#context.settings;
    const { refreshRatio, driftRate, safetyMarginMs } = timingOptions;
    const own = { vitals: this.vitals(), ttlMs: timing.ttlMs, refreshRatio, driftRate, safetyMarginMs };
    return adviseTiming({ ...own, ...options });
  }

  /** How many acquisitions wait. */
  get waiting(): number {
    return this.#context.waiting.size;
  }

  /** Throws `ConfigError` for options that no acquisition of this manager could use. For adapters, before the first one. */
  checkOptions(options: AcquireOptions): void {
    parseAcquireOptions(options, this.#context.settings);
  }

  /**
   * What the store knows of a resource, null if it has no record. For people and for logs: it may be outdated when it
   * arrives. Rejects when the store cannot be asked; that is never "free".
   */
  async inspect(resource: string): Promise<LeaseInfo | null> {
    this.#checkOpen(resource);
    const record = await this.#context.store.read(resource, { timeoutMs: this.#context.settings.timing.callTimeoutMs });
    return record === null ? null : describeRecord(resource, record);
  }

  /**
   * Stops acquiring; waits up to `grace` for bodies (and for leases from `acquire`); then cancels them (`shutdown`) and
   * waits up to `abandonAfter` (not for those that are no longer extended: abandoned, revoked, beyond `maxHold`); closes
   * the store with its last manager. Resolves with what has not settled by then: such a lease is never released beside its
   * running body but left to run out. Called again it gives the first answer. Called
   * inside a body it cannot wait for that body: it reports it, and the store is closed when the body has settled.
   */
  close(options?: CloseOptions): Promise<CloseResult> {
    if (this.#closed === undefined) {
      const { graceMs, abandonAfterMs } = parseCloseOptions(options);
      this.#context.closing = true;
      for (const end of this.#context.waiting) end();
      this.#lingerer.close();
      this.#closed = this.#closer.close(graceMs, abandonAfterMs).then((unsettled) => ({ unsettled }));
    }
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** What `@leasehold/core/diagnosis` works with; not for users. Throws `ManagerClosedError`. */
  get ground(): Ground {
    this.#checkOpen();
    const { logger } = this.#context.settings;
    return groundOf(this.#context, (event, payload) => this.announce(logger, event, payload));
  }

  protected override origin(): object {
    return { namespace: this.namespace, owner: this.#owner.instance };
  }

  #runArguments<T>(
    second: AcquireOptions | RunBody<T>,
    third: RunBody<T> | undefined,
  ): { readonly settings: AcquireSettings; readonly body: RunBody<T> } {
    const body = third ?? second;
    if (typeof body !== 'function')
      throw new ConfigError('body', `is ${show(body)}: must be a function, the last argument`);
    const options = typeof second === 'function' ? undefined : second;
    return { settings: parseAcquireOptions(options, this.#context.settings), body };
  }

  #checkOpen(resource?: string): void {
    if (this.#context.closing) throw new ManagerClosedError(resource);
    if (resource !== undefined) this.#context.store.checkName('resource', resource);
  }

  async #obtain(resource: string, settings: AcquireSettings): Promise<Tenure | Refusal> {
    this.#closer.acquiring();
    try {
      return await this.#acquirer.obtain(resource, settings);
    } finally {
      this.#closer.acquired();
    }
  }

  async #runBody<T>(tenure: Tenure, settings: AcquireSettings, body: RunBody<T>, job?: JobSide): Promise<T> {
    const lease = new Lease(tenure, this.#keeping);
    const scope: Scope = { lease, enclosing: currentScope(), settled: false };
    const { signal } = settings;
    const outer = job?.brake ?? signal;
    const cancel = (): void => tenure.cancel(cancelReasonOf(outer?.reason), outer?.reason);
    const stopListening = job?.brake.listen(cancel) ?? (signal && onAbort(signal, cancel));
    if (outer?.aborted === true) cancel();
    tenure.inBody = true;

    let value: T | undefined;
    let failed = false;
    let failure: unknown;
    try {
      // Never raced against anything: a body that was left behind would go on beside its successor.
      value = await inScope(scope, () => body(lease));
    } catch (error) {
      failed = true;
      failure = error;
      // Of a write by the bare grant, which has no lease behind it to tell, or of a guard in somebody's own transaction.
      const stale = refusalIn(error, settings.fences);
      if (stale?.fencingToken === tenure.grant.fencingToken && stale.resource === tenure.grant.resource)
        tenure.refuse(stale);
    }
    // Decided here, at the instant the body has settled, whatever the release may say later.
    const held = tenure.isHeld();
    scope.settled = true;
    tenure.inBody = false;
    stopListening?.();

    const release = this.#releaser.release(tenure, outcomeOf(held, failed, failure, tenure));
    if (job === undefined) await release;
    else job.behind(tenure, release);
    if (!held && !tenure.handedOver) throw lossOfRun(tenure, failed ? { error: failure } : { value });
    if (failed) throw failure;
    return value as T;
  }
}
