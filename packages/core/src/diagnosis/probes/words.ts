/** Findings, and the text in them. */

import type { OwnerFinding, OwnerState } from '../probe.ts';

/** What holds of every owner whose process has ended. */
export const AFTERLIFE =
  'what it had sent may still arrive and processes that it started may go on; only a fence refuses their writes';

export type Answer = Pick<OwnerFinding, 'state' | 'detail' | 'endByHand'> & { readonly caveat?: string };

export function gone(detail: string, caveat: string = AFTERLIFE): Answer {
  return { state: 'gone', detail, caveat };
}

export function answer(state: Exclude<OwnerState, 'gone'>, detail: string, caveat = ''): Answer {
  return { state, detail, caveat };
}

/**
 * One line of at most 200 characters that is safe on a terminal: what comes from a record or a program may contain control
 * characters, or marks that turn the direction of writing.
 */
export function plain(text: string): string {
  // At most four times as long as the result may be is looked at: a program may print without end.
  const line = text
    .slice(0, 800)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\s]+/gu, ' ')
    .trim();
  return line.length > 200 ? `${line.slice(0, 199)}…` : line;
}

/** `2026-01-15T02:41:07Z`. */
export function second(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
