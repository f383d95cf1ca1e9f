import type { Duration } from '../duration.ts';
import { LeaseholdError, StoreUnavailableError, UnsafeReleaseError, type LossReason } from '../errors.ts';
import type { Ground } from '../lease/ground.ts';
import type { LeaseManager } from '../lease/manager.ts';
import { safely, silentLogger } from '../log.ts';
import { qualify } from '../names.ts';
import type { ForceReleaseReply, ForceReleaseRequest } from '../store/store.ts';
import { messageOf } from '../thrown.ts';
import { untilAborted } from './abort.ts';
import { look, type DiagnoseOptions, type Diagnosis } from './diagnose.ts';
import { marginOf } from './observe.ts';
import { parseForceReleaseOptions, type ForceReleaseSettings } from './options.ts';
import { tryOldGrant } from './old-grant.ts';
import { planOf, sealTokenOf, type ReleasePlan } from './plan.ts';
import { sealAll, sealedLine, type SealFailure } from './seal.ts';
import { summaryOf } from './summary.ts';
import { watchSuccessor, type Aftermath } from './successor.ts';

export interface ForceReleaseOptions extends Omit<DiagnoseOptions, 'observe'> {
  /** Whose lease: as `diagnose` shows it. A release is refused if it is another one by now. */
  readonly leaseId: string;
  /** Why, for the log: an incident's number. 1 to 256 characters. */
  readonly reason: string;
  /** Who, 1 to 256 characters. Default: this process's owner line. */
  readonly operator?: string | undefined;
  /**
   * Releases without any enforcing fence: two owners may act from then on. Only with this text, `<resource>#<token>`, and
   * never for an owner that is verified alive.
   */
  readonly acceptDoubleExecution?: string | undefined;
  /** Asked with the plan before anything is done; false ends it. */
  readonly confirm?: ((plan: ReleasePlan) => boolean | Promise<boolean>) | undefined;
  /** What is being done, for people. */
  readonly onStep?: ((step: ReleaseStep) => void) | undefined;
  /** After a release: waits so long for the next owner, and tries whether the fences refuse the old one. At most 1 h. */
  readonly watchSuccessor?: Duration | undefined;
}

export type ReleaseStep =
  | 'watching'
  | 'confirming'
  | 'checking again'
  | 'sealing'
  | 'trying the old token'
  | 'releasing'
  | 'waiting for the next owner';

export interface ForceReleaseResult {
  /**
   * `released`: others can acquire. `declined`: by `confirm`. `changed`: something happened to the lease meanwhile, so it was
   * left alone.
   */
  readonly outcome: 'released' | 'declined' | 'changed';
  readonly plan: ReleasePlan;
  /** The fences that were sealed, also if nothing was released then: it shuts out the owner, and nobody else. */
  readonly sealed: readonly string[];
  /** On what it was decided, in one line, as the log and the event have it. */
  readonly evidence: string;
  /**
   * The log of the resource was seen to have the release. False if the store did not answer then, or something else lies where
   * the log is: the release is done all the same. True if nothing was released.
   */
  readonly isLogged: boolean;
  /** Why it had changed. */
  readonly reason: LossReason | 'extended' | 'running' | null;
  /** Null unless it was released and `watchSuccessor` was asked for. */
  readonly aftermath: Aftermath | null;
}

/**
 * Break-glass: watches, plans, asks, looks again, seals the fences, tries whether they refuse the old token, and
 * releases by one compare-and-set in the store. In every case but a fault of the options the manager's event `forceReleased` tells what came of it, once.
 *
 * Rejects with `UnsafeReleaseError` if it would not be safe (`missing` says what for), if a fence could not be sealed or admits
 * the old token all the same, or the signal ended it while fences were sealed (`sealed` says which were; nothing was released then), with the signal's reason
 * before that, with what `confirm` threw, with the store's errors (`mayHaveRun`: look whether it was released), with
 * `ConfigError` and `ManagerClosedError`. What has been sealed stays sealed, which shuts out the old owner and nobody else.
 */
export async function forceRelease(
  manager: LeaseManager,
  resource: string,
  options: ForceReleaseOptions,
): Promise<ForceReleaseResult> {
  const { ground } = manager;
  ground.store.checkName('resource', resource);
  const settings = parseForceReleaseOptions(options);
  const { leaseId, operator = ground.operator, reason } = settings;
  const attempt = new Attempt(ground, resource, { ...settings, operator });
  const tell = (outcome: Parameters<Ground['forced']>[0]['outcome']): void => {
    const { fencingToken, sealed, evidence } = attempt;
    ground.forced({ resource, leaseId, fencingToken, outcome, operator, reason, sealed, evidence });
  };
  let result: ForceReleaseResult;
  try {
    result = await attempt.run();
  } catch (error) {
    await attempt.noteSeals();
    tell(LeaseholdError.is(error, 'UNSAFE_RELEASE') ? 'refused' : 'failed');
    throw error;
  }
  if (result.outcome !== 'released') await attempt.noteSeals();
  tell(result.outcome);
  return result.outcome === 'released' ? { ...result, aftermath: await attempt.watch(result.plan) } : result;
}

class Attempt {
  /** Of the lease, 0 as long as it is not known. */
  fencingToken = 0;
  sealed: readonly string[] = [];
  /** Empty as long as nothing is known. */
  evidence = '';
  #sealToken = 0;
  #floor = 0;
  #failure: SealFailure | null = null;
  #mayBeReleased = false;
  #wasAskedTwice = false;
  #isLogged = true;
  readonly #ground: Ground;
  readonly #resource: string;
  readonly #settings: ForceReleaseSettings & { readonly operator: string };

  constructor(ground: Ground, resource: string, settings: ForceReleaseSettings & { readonly operator: string }) {
    this.#ground = ground;
    this.#resource = resource;
    this.#settings = settings;
  }

  async run(): Promise<ForceReleaseResult> {
    const { confirm, signal } = this.#settings;
    this.#step('watching');
    const before = await this.#look(true);
    this.fencingToken = before.lease?.fencingToken ?? 0;
    this.evidence = summaryOf(before);
    const plan = planOf(before, this.#settings);

    this.#step('confirming');
    if (confirm !== undefined && !(await untilAborted(Promise.resolve(confirm(plan)), signal))) {
      return this.#result('declined', plan, null);
    }
    signal?.throwIfAborted();

    // As long as somebody thought about it, anything may have happened.
    this.#step('checking again');
    const now = await this.#look(false, before);
    this.evidence = summaryOf(now);
    const change = changeOf(before, now);
    if (change !== null) return this.#result('changed', plan, change);
    const again = planOf(now, this.#settings);
    signal?.throwIfAborted();

    await this.#seal(now, again);
    this.#step('releasing');
    const reply = await this.#release(again);
    switch (reply.kind) {
      case 'released':
        return this.#result('released', plan, null);
      case 'changed':
        return this.#result('changed', plan, 'extended');
      case 'running':
        return this.#result('changed', plan, 'running');
      case 'lost':
        return this.#result('changed', plan, reply.reason);
    }
  }

  async watch({ leaseId, fencingToken }: ReleasePlan): Promise<Aftermath | null> {
    const { watchMs, fences = [], signal } = this.#settings;
    if (watchMs === undefined) return null;
    this.#step('waiting for the next owner');
    const resource = this.#resource;
    const grant = { resource: qualify(this.#ground.store.namespace, resource), leaseId, fencingToken };
    const releasedToken = Math.max(fencingToken, this.#floor);
    const enforcing = fences.filter((fence) => fence.enforcing);
    return watchSuccessor(this.#ground, { grant, resource, releasedToken }, enforcing, watchMs, signal);
  }

  /** What was sealed stays so, whatever else came of it: the log is to say who did it. The store may be what failed. */
  async noteSeals(): Promise<void> {
    if (this.sealed.length === 0 && this.#failure?.mayBeSealed !== true) return;
    const { operator, reason } = this.#settings;
    const released = this.#mayBeReleased ? 'perhaps released' : 'not released';
    const why = `${reason} (${sealedLine(this.sealed, this.#failure)}; ${released}; ${this.evidence})`;
    const request = { resource: this.#resource, fencingToken: this.#sealToken, operator, reason: why };
    await this.#ground.store.noteSeal(request, this.#ground.call).catch(() => {});
  }

  #look(observe: boolean, before?: Diagnosis): Promise<Diagnosis> {
    const { probes, fences, signal, onProgress } = this.#settings;
    return look(this.#ground, this.#resource, { probes, fences, signal, onProgress, observe }, before?.observation);
  }

  async #seal(now: Diagnosis, { seals }: ReleasePlan): Promise<void> {
    if (seals.length === 0) return;
    const { fences = [], signal } = this.#settings;
    const { store, clock } = this.#ground;
    this.#step('sealing');
    const sealToken = sealTokenOf(now);
    const enforcing = fences.filter((fence) => fence.enforcing);
    const qualified = qualify(store.namespace, this.#resource);
    const { sealed, failure } = await sealAll(clock, enforcing, qualified, sealToken, signal);
    this.sealed = sealed;
    this.#failure = failure;
    this.#sealToken = sealToken;
    if (failure?.mayBeSealed === true) this.evidence += `; perhaps sealed: ${failure.fence}`;
    if (failure !== null && signal?.aborted !== true) {
      const why = `fence ${failure.fence} could not be sealed, or did not say so: ${messageOf(failure.error)}`;
      throw new UnsafeReleaseError(this.#resource, [why], { sealed, cause: failure.error });
    }
    this.#refuseIfAborted(failure?.error);

    // A seal that does not refuse is none, whatever the fence says of it.
    this.#step('trying the old token');
    const { leaseId } = this.#settings;
    const grant = { resource: qualified, leaseId, fencingToken: this.fencingToken };
    const { refusedBy, notRefusedBy } = await tryOldGrant(clock, enforcing, grant);
    if (notRefusedBy.length > 0) {
      const why = `the old token was tried, and not refused by ${notRefusedBy.join(', ')}, which admitted it or did not answer, although sealed at ${sealToken}`;
      throw new UnsafeReleaseError(this.#resource, [why], { sealed });
    }
    this.#refuseIfAborted();
    this.evidence += `; sealed at ${sealToken}, and the old token refused: ${refusedBy.join(', ')}`;
    this.#floor = sealToken;
  }

  #refuseIfAborted(cause?: unknown): void {
    const { signal } = this.#settings;
    if (signal?.aborted !== true) return;
    const { sealed } = this;
    const why = 'it was ended while the fences were sealed';
    throw new UnsafeReleaseError(this.#resource, [why], { sealed, cause: cause ?? signal.reason });
  }

  async #release({ leaseId, fencingToken, isUnfenced, diagnosis }: ReleasePlan): Promise<ForceReleaseReply> {
    const { store, call } = this.#ground;
    const { operator, reason } = this.#settings;
    const { lease } = diagnosis;
    const request: ForceReleaseRequest = {
      resource: this.#resource,
      leaseId,
      fencingToken,
      extensions: lease?.extensions ?? 0,
      elapsedMs: marginOf(lease?.ttlMs ?? 0),
      floor: this.#floor,
      operator,
      reason: `${reason} (${isUnfenced ? 'unfenced: two owners may act; ' : ''}${this.evidence})`,
    };
    const reply = await store.forceRelease(request, call).catch(async (error: unknown) => {
      // The answer may be lost, and the release done: asked again, the store knows how this lease ended.
      if (!LeaseholdError.is(error, 'STORE_UNAVAILABLE')) throw error;
      this.#mayBeReleased = error instanceof StoreUnavailableError && error.mayHaveRun;
      this.#wasAskedTwice = true;
      const again = await store.forceRelease(request, call).catch(() => undefined);
      if (again === undefined) throw error;
      this.#mayBeReleased = false;
      return again;
    });
    if (reply.kind === 'released') {
      // It is done, and to be kept: but a full or foreign log is no reason for the store not to release.
      this.#isLogged = await this.#hasLogged(request);
      return reply;
    }
    // Only of a question whose answer was lost: the same words may be those of somebody who types the same at the same time.
    const mayBeOurs = this.#wasAskedTwice && reply.kind === 'lost' && reply.reason === 'force-released';
    const isOurs = mayBeOurs && (await this.#hasLogged(request));
    return isOurs ? { kind: 'released' } : reply;
  }

  /** Whether the log has this very release, and not that of another operator. */
  async #hasLogged({ fencingToken, operator, reason }: ForceReleaseRequest): Promise<boolean> {
    const { store, call } = this.#ground;
    const events = await store.history(this.#resource, 16, call).catch(() => []);
    const detail = `${operator}: ${reason}`;
    return events.some(
      (each) => each.event === 'forced' && each.fencingToken === fencingToken && each.detail === detail,
    );
  }

  #result(
    outcome: ForceReleaseResult['outcome'],
    plan: ReleasePlan,
    reason: ForceReleaseResult['reason'],
  ): ForceReleaseResult {
    const { sealed, evidence } = this;
    return { outcome, plan, sealed, evidence, isLogged: this.#isLogged, reason, aftermath: null };
  }

  /** Who watches cannot break it. */
  #step(step: ReleaseStep): void {
    safely(silentLogger, 'onStep', () => this.#settings.onStep?.(step));
  }
}

/** Why the lease is not the one that was confirmed; null if it is. A store that cannot be asked is refused by the verdict. */
function changeOf(before: Diagnosis, now: Diagnosis): ForceReleaseResult['reason'] {
  if (now.verdict.code === 'unknown') return null;
  const was = before.lease;
  const is = now.lease;
  if (is === null) return 'missing';
  if (is.leaseId !== was?.leaseId || is.fencingToken !== was.fencingToken) return 'superseded';
  if (is.state === 'free') return 'released';
  return is.extensions === was.extensions && is.extendedAt.getTime() === was.extendedAt.getTime() ? null : 'extended';
}
