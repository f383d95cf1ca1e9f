/** A resource's log: what it keeps of which events. Pure. */

import type { HistoryEvent, HistoryMode } from './store.ts';
import type { ResourceState, StoredLease } from './state.ts';

const LENGTHS: Readonly<Record<HistoryMode, number>> = { exceptions: 16, all: 64 };

/** Events of the ordinary course, which only the mode `all` keeps. */
const ORDINARY: ReadonlySet<HistoryEvent['event']> = new Set(['acquired', 'released']);

/** The log with a seal of the fences in it, which is kept whatever the owners keep. */
export function noteSeal(state: ResourceState, fencingToken: number, atUs: number, detail: string): ResourceState {
  const entry = { atUs, event: 'sealed', owner: '', fencingToken, detail, job: null, tickAt: null } as const;
  return { ...state, log: [entry, ...state.log].slice(0, LENGTHS.all) };
}

/** The log with an event of `lease` in it, if the mode keeps such events. */
export function note(
  state: ResourceState,
  history: HistoryMode,
  event: HistoryEvent['event'],
  lease: StoredLease,
  atUs: number,
  detail = '',
): ResourceState {
  if (history === 'exceptions' && ORDINARY.has(event)) return state;
  const { owner, fencingToken, tick } = lease;
  const entry = { atUs, event, owner, fencingToken, detail, job: tick?.job ?? null, tickAt: tick?.at ?? null };
  return { ...state, log: [entry, ...state.log].slice(0, LENGTHS[history]) };
}
