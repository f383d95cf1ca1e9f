import { figureOf } from '../figure.ts';

/**
 * The field `term` of a record, all that an extension reads and writes beside the leaseId, in one text:
 *
 *     <state> <ttl, ms> <extensions> <extended, µs> <until, µs>
 *
 * The state is `held`, `revoked` (held, but extended no more) or `over`: released by its owner or by force. `over` goes with
 * an empty owner, and the others with none that is empty; a record in which they disagree is foreign. Until when it was
 * confirmed is the last of it, at a fixed place from the end, as times have sixteen digits.
 */
export interface Term {
  readonly state: 'held' | 'revoked' | 'over';
  readonly ttlMs: number;
  readonly extensions: number;
  readonly extendedUs: number;
  readonly untilUs: number;
}

/** The Lua pattern. It captures the state, the three figures in the middle as one text, the ttl, and until when. */
export const TERM: string = `'^(%l+) ((%d+) %d+ %d+) (%d+)$'`;

/** Lua that says whether `state`, or nil, fits `owner`, which is there. */
export const IS_OF_OWNER: string = `(owner == '' and state == 'over' or owner ~= '' and (state == 'held' or state == 'revoked'))`;

const SHAPE = /^(held|revoked|over) (\d+) (\d+) (\d+) (\d+)$/;

/** Undefined for what is none, or does not fit the record's `owner`. */
export function termOf(text: string, owner: string): Term | undefined {
  const [, state, ...figures] = SHAPE.exec(text) ?? [];
  const [ttlMs, extensions, extendedUs, untilUs] = figures.map(figureOf);
  if (ttlMs === undefined || extensions === undefined || extendedUs === undefined || untilUs === undefined)
    return undefined;
  if ((state === 'over') !== (owner === '')) return undefined;
  return { state: state as Term['state'], ttlMs, extensions, extendedUs, untilUs };
}
