import type { Clock } from '../clock.ts';
import { FenceUnavailableError, LeaseholdError } from '../errors.ts';
import type { Fence } from '../fence/fence.ts';
import type { LeaseManager } from '../lease/manager.ts';
import { TIMED_OUT, within } from '../lease/within.ts';
import { qualify } from '../names.ts';
import { parseSealOptions, type SealOptions } from './options.ts';

export interface SealResult {
  /** What the fences were raised to. Every grant up to it is refused. */
  readonly sealToken: number;
  /** Those that were sealed. */
  readonly sealed: readonly string[];
  /** The fence that could not be, and why; those after it were not asked. Null if all were. */
  readonly failure: SealFailure | null;
  /** The log of the resource has it. A store that does not answer, or somebody else's key there, is no reason not to seal. False if nothing was sealed. */
  readonly isLogged: boolean;
}

export interface SealFailure {
  readonly fence: string;
  readonly error: unknown;
  /** It was asked, and has not said that it is not: its answer may be what was lost. */
  readonly mayBeSealed: boolean;
}

const SEAL_TIMEOUT_MS = 10_000;

/**
 * Shuts out the owner of a resource at its fences, and every grant before it, without releasing anything: its next write is
 * refused, and it stops as soon as it hears of that. Whoever acquires next is admitted. Nothing is sealed before all fences
 * have told their highest token. The manager's event `sealed` and the log of the resource tell who did it and why, as soon
 * as a fence was asked to. Rejects with `ConfigError`, `ManagerClosedError`, the store's errors unless a token is given, and
 * what a fence that cannot be asked throws.
 */
export async function seal(manager: LeaseManager, resource: string, options: SealOptions): Promise<SealResult> {
  const { ground } = manager;
  const { store, clock, call } = ground;
  store.checkName('resource', resource);
  const { fences, fencingToken, reason, operator = ground.operator } = parseSealOptions(options);
  const qualified = qualify(store.namespace, resource);
  const record = fencingToken === undefined ? await store.read(resource, call) : null;
  const highest = await Promise.all(
    fences.map(async (fence) => (await answer(clock, fence, qualified, fence.highest(qualified)))?.fencingToken ?? 0),
  );
  const sealToken = fencingToken ?? Math.max(record?.fencingToken ?? 0, ...highest) + 1;
  const { sealed, failure } = await sealAll(clock, fences, qualified, sealToken);
  const failed = failure?.fence ?? null;
  ground.sealed({ resource, fencingToken: sealToken, operator, reason, fences: sealed, failed });
  if (sealed.length === 0 && failure?.mayBeSealed === false) return { sealToken, sealed, failure, isLogged: false };
  const noted = { resource, fencingToken: sealToken, operator, reason: `${reason} (${sealedLine(sealed, failure)})` };
  const isLogged = await store.noteSeal(noted, call).then(
    () => true,
    () => false,
  );
  return { sealToken, sealed, failure, isLogged };
}

/** `ledger, perhaps mail`, for the log. */
export function sealedLine(sealed: readonly string[], failure: SealFailure | null): string {
  const others = failure === null ? [] : [`${failure.mayBeSealed ? 'perhaps' : 'not'} ${failure.fence}`];
  return [...sealed, ...others].join(', ');
}

/**
 * One after the other, in the order that is given, up to the first that fails. A fence that does not answer within 10 s
 * counts as failed, although it may be sealed. A signal ends it between two fences.
 */
export async function sealAll(
  clock: Clock,
  fences: readonly Fence[],
  qualified: string,
  sealToken: number,
  signal?: AbortSignal,
): Promise<Pick<SealResult, 'sealed' | 'failure'>> {
  const sealed: string[] = [];
  for (const fence of fences) {
    if (signal?.aborted === true)
      return { sealed, failure: { fence: fence.name, error: signal.reason, mayBeSealed: false } };
    try {
      await answer(clock, fence, qualified, fence.seal(qualified, sealToken));
    } catch (error) {
      return { sealed, failure: { fence: fence.name, error, mayBeSealed: !isCertain(error) } };
    }
    sealed.push(fence.name);
  }
  return { sealed, failure: null };
}

/** The fence has said that nothing was written. */
function isCertain(error: unknown): boolean {
  return (
    LeaseholdError.is(error, 'TOKEN_OUT_OF_RANGE') ||
    (error instanceof FenceUnavailableError && error.outcome === 'not-written')
  );
}

async function answer<T>(clock: Clock, fence: Fence, qualified: string, asked: Promise<T>): Promise<T> {
  asked.catch(() => {}); // it may come when nobody waits any more
  const reply = await within(clock, asked, SEAL_TIMEOUT_MS);
  if (reply !== TIMED_OUT) return reply;
  throw new FenceUnavailableError(qualified, fence.name, `no answer within ${SEAL_TIMEOUT_MS} ms`);
}
