import type { LeaseInfo } from '@leasehold/core';
import type { Tone } from './style.ts';
import { formatDuration } from './time.ts';

/** What people read. `STOPPING`: held, and its owner was asked to let go. */
export type StateWord = 'HELD' | 'STOPPING' | 'EXPIRED' | 'FREE';

export function stateWord({ state, revoked }: Pick<LeaseInfo, 'state' | 'revoked'>): StateWord {
  if (state === 'held') return revoked ? 'STOPPING' : 'HELD';
  return state === 'expired' ? 'EXPIRED' : 'FREE';
}

const TONES: Readonly<Record<StateWord, Tone>> = { HELD: 'good', STOPPING: 'warning', EXPIRED: 'bad', FREE: 'quiet' };

export function stateTone(word: StateWord): Tone {
  return TONES[word];
}

/**
 * How long its owner has been silent, if that is too long. A lease is extended at the latest after half its ttl (the
 * least refresh ratio is 2), so what is older has missed an extension. Milliseconds.
 */
function lateMs(info: LeaseInfo): number | undefined {
  if (info.state !== 'held' || info.revoked) return undefined;
  const silentMs = info.ttlMs - info.remainingMs;
  return silentMs > info.ttlMs / 2 ? silentMs : undefined;
}

/** What deserves a second look; empty if nothing does. */
export function concern(info: LeaseInfo): string {
  if (info.state === 'expired') return 'ran out, not taken yet';
  if (info.state === 'held' && info.revoked) return 'asked to let go';
  const late = lateMs(info);
  if (late !== undefined) return `not extended for ${formatDuration(late)}`;
  return info.state === 'free' && info.waiting > 0 ? 'kept for who waits' : '';
}

/** The smaller, the more trouble. */
function rank(info: LeaseInfo): number {
  if (info.state === 'expired') return info.waiting > 0 ? 0 : 1;
  if (info.state === 'free') return info.waiting > 0 ? 4 : 6;
  if (lateMs(info) !== undefined) return 2;
  if (info.revoked) return 3;
  return info.waiting > 0 ? 4 : 5;
}

/** The most trouble first; among equals who has the least time left, then by name. */
export function byTrouble(a: LeaseInfo, b: LeaseInfo): number {
  return rank(a) - rank(b) || a.remainingMs - b.remainingMs || (a.resource < b.resource ? -1 : 1);
}

/** Tokens are microseconds since 1970 or more: never with separators, so that they can be searched for. */
export function tokenText(fencingToken: number): string {
  return fencingToken === 0 ? '-' : String(fencingToken);
}
