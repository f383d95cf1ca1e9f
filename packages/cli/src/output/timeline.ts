import type { HistoryEntry } from '@leasehold/core';

/** How a tenure ended. `open`: no end is recorded and nobody came after. `unknown`: somebody came after, and its end was not kept. */
export type TenureEnd = 'released' | 'expired' | 'lost' | 'refused' | 'forced' | 'handed-over' | 'open' | 'unknown';

/** Something that happened to a tenure, other than its beginning and its end. */
export interface TenureMark {
  readonly event: 'revoked' | 'refused' | 'adopted' | 'forced';
  readonly at: Date;
  readonly detail: string;
}

/** One ownership: from one token to the next. */
export interface Tenure {
  readonly owner: string;
  readonly fencingToken: number;
  /** Null: not kept. */
  readonly from: Date | null;
  /** Null: still open, or not kept. */
  readonly to: Date | null;
  readonly end: TenureEnd;
  readonly marks: readonly TenureMark[];
}

interface Draft {
  owner: string;
  fencingToken: number;
  from: Date | null;
  to: Date | null;
  end: TenureEnd;
  marks: TenureMark[];
}

/** The tenures that a log tells of, the oldest first. `events` as `LeaseManager.history` gives them, the newest first. */
export function tenuresOf(events: readonly HistoryEntry[]): readonly Tenure[] {
  const drafts = new Map<number, Draft>();
  // Tokens only rise, so they are the order of tenures, also of those with one instant.
  let newest = 0;
  for (const entry of events.toReversed()) {
    const { event, at, owner, fencingToken, detail } = entry;
    // Its token is no tenure's: it is what the fences were raised to.
    if (event === 'sealed') continue;
    const before = drafts.get(newest);
    const draft = drafts.get(fencingToken) ?? { owner, fencingToken, from: null, to: null, end: 'open', marks: [] };
    drafts.set(fencingToken, draft);
    newest = Math.max(newest, fencingToken);
    switch (event) {
      case 'acquired':
        draft.from = at;
        break;
      case 'adopted':
        draft.from = at;
        draft.marks.push({ event, at, detail });
        if (before !== undefined && before !== draft && before.to === null) end(before, 'handed-over', at);
        break;
      case 'revoked':
        draft.marks.push({ event, at, detail });
        break;
      case 'refused':
      case 'forced':
        draft.marks.push({ event, at, detail });
        end(draft, event, at);
        break;
      case 'released':
      case 'expired':
      case 'lost':
        end(draft, event, at);
    }
  }
  const tenures = [...drafts.values()].toSorted((a, b) => a.fencingToken - b.fencingToken);
  // Of the last one too if only exceptions are kept: an ordinary end would not be there.
  const isOrdinaryKept = events.some(({ event }) => event === 'acquired' || event === 'released');
  for (const [index, draft] of tenures.entries()) {
    const isLast = index === tenures.length - 1;
    if (draft.end === 'open' && (!isLast || draft.from === null || !isOrdinaryKept)) draft.end = 'unknown';
  }
  return tenures;
}

function end(draft: Draft, how: TenureEnd, at: Date): void {
  draft.end = how;
  draft.to = at;
}

/** Whether a beginning or an end is missing: the log is full, or its managers keep only what is exceptional. */
export function isIncomplete(tenures: readonly Tenure[]): boolean {
  return tenures.some(({ from, end: how }) => from === null || how === 'unknown');
}
