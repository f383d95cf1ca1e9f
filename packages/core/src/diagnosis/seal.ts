import type { Clock } from '../clock.ts';
import { FenceUnavailableError } from '../errors.ts';
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
  readonly failure: { readonly fence: string; readonly error: unknown } | null;
}

const SEAL_TIMEOUT_MS = 10_000;

/**
 * Shuts out the owner of a resource at its fences, and every grant before it, without releasing anything: its next write is
 * refused, and it stops as soon as it hears of that. Whoever acquires next is admitted. Nothing is sealed before all fences
 * have told their highest token. Rejects with `ConfigError`, `ManagerClosedError`, the store's errors, and what a fence that
 * cannot be asked throws.
 */
export async function seal(manager: LeaseManager, resource: string, options: SealOptions): Promise<SealResult> {
  const { store, clock, call } = manager.ground;
  store.checkName('resource', resource);
  const { fences, fencingToken } = parseSealOptions(options);
  const qualified = qualify(store.namespace, resource);
  const record = await store.read(resource, call);
  const highest = await Promise.all(
    fences.map(async (fence) => (await answer(clock, fence, qualified, fence.highest(qualified)))?.fencingToken ?? 0),
  );
  const sealToken = fencingToken ?? Math.max(record?.fencingToken ?? 0, ...highest) + 1;
  return { sealToken, ...(await sealAll(clock, fences, qualified, sealToken)) };
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
): Promise<Omit<SealResult, 'sealToken'>> {
  const sealed: string[] = [];
  for (const fence of fences) {
    if (signal?.aborted === true) return { sealed, failure: { fence: fence.name, error: signal.reason } };
    try {
      await answer(clock, fence, qualified, fence.seal(qualified, sealToken));
    } catch (error) {
      return { sealed, failure: { fence: fence.name, error } };
    }
    sealed.push(fence.name);
  }
  return { sealed, failure: null };
}

async function answer<T>(clock: Clock, fence: Fence, qualified: string, asked: Promise<T>): Promise<T> {
  asked.catch(() => {}); // it may come when nobody waits any more
  const reply = await within(clock, asked, SEAL_TIMEOUT_MS);
  if (reply !== TIMED_OUT) return reply;
  throw new FenceUnavailableError(qualified, fence.name, `no answer within ${SEAL_TIMEOUT_MS} ms`);
}
