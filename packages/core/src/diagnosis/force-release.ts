import { ConfigError, findStale, UnsafeReleaseError, type LossReason } from '../errors.ts';
import type { Fence } from '../fence/fence.ts';
import { MAX_TOKEN_AHEAD_US } from '../fence/fence.ts';
import type { Ground } from '../lease/ground.ts';
import type { LeaseManager } from '../lease/manager.ts';
import { qualify } from '../names.ts';
import { look, type DiagnoseOptions, type Diagnosis } from './diagnose.ts';
import { marginOf } from './observe.ts';

export interface ForceReleaseOptions extends Omit<DiagnoseOptions, 'observe'> {
  /** Whose lease: as `diagnose` shows it. A release is refused if it is another one by now. */
  readonly leaseId: string;
  /** Why, for the log: an incident's number. 1 to 256 characters. */
  readonly reason: string;
  /** Who. Default: this process's owner line. */
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
}

export type ReleaseStep = 'watching' | 'confirming' | 'checking again' | 'sealing' | 'releasing';

/** What is about to be done. */
export interface ReleasePlan {
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly owner: string;
  /** The fences that are sealed first, and the token they are raised to. */
  readonly seals: readonly string[];
  readonly sealToken: number;
  /** Two owners may act: no fence is there. */
  readonly isUnfenced: boolean;
  readonly diagnosis: Diagnosis;
}

export interface ForceReleaseResult {
  /**
   * `released`: others can acquire. `declined`: by `confirm`. `changed`: something happened to the lease meanwhile, so it was
   * left alone.
   */
  readonly outcome: 'released' | 'declined' | 'changed';
  readonly plan: ReleasePlan;
  /** The fences that were sealed, also if nothing was released then: it shuts out the owner, and nobody else. */
  readonly sealed: readonly string[];
  /** Why it had changed. */
  readonly reason: LossReason | 'extended' | 'running' | null;
}

/**
 * Break-glass: plan, confirmation, a second look, the fences sealed, and one compare-and-set in the store. Rejects with
 * `UnsafeReleaseError` (`missing` says what for) if it would not be safe, with `FenceUnavailableError` or what a fence
 * threw if one cannot be sealed (then nothing is released), with `ConfigError`, with the store's errors, and with the
 * signal's reason. What has been sealed by then stays sealed, which is safe; the error's `sealed` says which.
 */
export async function forceRelease(
  manager: LeaseManager,
  resource: string,
  options: ForceReleaseOptions,
): Promise<ForceReleaseResult> {
  const { ground } = manager;
  ground.store.checkName('resource', resource);
  checkForceRelease(options);
  const { operator = ground.operator, reason } = options;
  const result = await release(ground, resource, { ...options, operator });
  const { outcome, sealed, plan } = result;
  const { leaseId, fencingToken } = plan;
  ground.forced({ resource, leaseId, fencingToken, outcome, operator, reason, sealed });
  return result;
}

async function release(
  ground: Ground,
  resource: string,
  options: ForceReleaseOptions & { readonly operator: string },
): Promise<ForceReleaseResult> {
  const { store, call } = ground;
  const { leaseId, reason, operator, fences = [], confirm, onStep, signal } = options;
  onStep?.('watching');
  const diagnosis = await look(ground, resource, { ...options, observe: true });
  const plan = planOf(diagnosis, options);
  onStep?.('confirming');
  if (confirm !== undefined && !(await confirm(plan))) return { outcome: 'declined', plan, sealed: [], reason: null };
  signal?.throwIfAborted();

  // As long as somebody thought about it, anything may have happened.
  onStep?.('checking again');
  const again = await look(ground, resource, { ...options, observe: false }, diagnosis.observation);
  const before = diagnosis.lease;
  const now = again.lease;
  if (before === null || now === null || now.leaseId !== leaseId || now.extensions !== before.extensions) {
    return { outcome: 'changed', plan, sealed: [], reason: now?.leaseId === leaseId ? 'extended' : 'superseded' };
  }
  const { allowed } = again.verdict;
  const permission = plan.isUnfenced ? allowed.forceReleaseUnfenced : allowed.forceRelease;
  if (!permission.allowed) throw new UnsafeReleaseError(resource, permission.missing);
  signal?.throwIfAborted();

  const sealed: string[] = [];
  onStep?.('sealing');
  for (const fence of fences) {
    if (!fence.enforcing) continue;
    await seal(fence, qualify(store.namespace, resource), plan.sealToken, sealed);
  }
  if (signal?.aborted === true) throw withSealed(signal.reason, sealed);
  onStep?.('releasing');
  const reply = await store
    .forceRelease(
      {
        resource,
        leaseId,
        fencingToken: plan.fencingToken,
        extensions: before.extensions,
        elapsedMs: marginOf(before.ttlMs),
        floor: sealed.length === 0 ? 0 : plan.sealToken,
        operator,
        reason: plan.isUnfenced ? `${reason} (unfenced: two owners may act)` : reason,
      },
      call,
    )
    .catch((error: unknown) => {
      throw withSealed(error, sealed);
    });
  switch (reply.kind) {
    case 'released':
      return { outcome: 'released', plan, sealed, reason: null };
    case 'changed':
      return { outcome: 'changed', plan, sealed, reason: 'extended' };
    case 'running':
      return { outcome: 'changed', plan, sealed, reason: 'running' };
    case 'lost':
      return { outcome: 'changed', plan, sealed, reason: reply.reason };
  }
}

function planOf(diagnosis: Diagnosis, options: ForceReleaseOptions): ReleasePlan {
  const { resource, lease, verdict } = diagnosis;
  const { leaseId, fences = [], acceptDoubleExecution } = options;
  if (lease !== null && lease.state !== 'free' && lease.leaseId !== leaseId) {
    throw new UnsafeReleaseError(resource, [`the lease is ${lease.leaseId} by now, not ${leaseId}: look again`]);
  }
  const token = lease?.fencingToken ?? 0;
  const seals = fences.filter(({ enforcing }) => enforcing).map(({ name }) => name);
  const isUnfenced = seals.length === 0;
  if (isUnfenced && verdict.allowed.forceReleaseUnfenced.allowed) {
    const verbatim = `${resource}#${token}`;
    if (acceptDoubleExecution !== verbatim) {
      throw new UnsafeReleaseError(resource, [
        `no enforcing fence was named; without one two owners may act: name it, or accept that with acceptDoubleExecution '${verbatim}'`,
      ]);
    }
  } else {
    const permission = isUnfenced ? verdict.allowed.forceReleaseUnfenced : verdict.allowed.forceRelease;
    if (!permission.allowed) throw new UnsafeReleaseError(resource, permission.missing);
  }
  const highest = Math.max(token, ...diagnosis.fences.map((fence) => fence.highest ?? 0));
  const sealToken = highest + 1;
  const nowUs = (lease?.readAt.getTime() ?? 0) * 1000;
  if (sealToken >= nowUs + MAX_TOKEN_AHEAD_US) {
    throw new UnsafeReleaseError(resource, [`a fence is at ${highest}, more than 24 h ahead of the store's clock`]);
  }
  return { resource, leaseId, fencingToken: token, owner: lease?.owner ?? '', seals, sealToken, isUnfenced, diagnosis };
}

async function seal(fence: Fence, qualified: string, token: number, sealed: string[]): Promise<void> {
  try {
    await fence.seal(qualified, token);
  } catch (error) {
    // Sealed higher by somebody else: what is wanted.
    if (findStale(error) === undefined) throw withSealed(error, sealed);
  }
  sealed.push(fence.name);
}

/** What was done before it failed is part of the news. */
function withSealed(error: unknown, sealed: readonly string[]): unknown {
  if (error instanceof Error) Object.assign(error, { sealed });
  return error;
}

/** Throws `ConfigError` unless it says whose lease, and why. */
function checkForceRelease({ leaseId, reason }: ForceReleaseOptions): void {
  if (typeof leaseId !== 'string' || leaseId === '') {
    throw new ConfigError('leaseId', 'is missing: the lease that is to be released, as diagnose shows it');
  }
  if (typeof reason !== 'string' || reason.trim() === '' || reason.length > 256) {
    throw new ConfigError('reason', 'is missing or longer than 256 characters: it is kept in the log');
  }
}
