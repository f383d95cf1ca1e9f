import { parseDuration } from '@leasehold/core';
import {
  checkHistory,
  type CheckOptions,
  type Counts,
  type FenceRow,
  type History,
  type HistoryLine,
  type HistoryVerdict,
} from '@leasehold/core/testing/history';
import type { LedgerEntry } from './drill-fence.ts';
import type { DrillTiming } from './messages.ts';

/** What the rules of the checker say of a run. */
export interface Judgement {
  /** Each broken rule in words, with the events that show it. */
  readonly breaches: readonly string[];
  readonly waived: HistoryVerdict['waived'];
  readonly counts: Counts;
}

/** Judges one run of one proof. */
export function judge(history: History, timing: DrillTiming): Judgement {
  const { findings, waived, counts } = checkHistory(history, checkOptions(timing));
  return {
    // V2 is for a suite of runs: one proof meets one kind of trouble.
    breaches: findings.filter(({ invariant }) => invariant !== 'V2').map(({ message }) => message),
    waived,
    counts,
  };
}

function checkOptions({ driftRate, safetyMargin }: DrillTiming): CheckOptions {
  return {
    driftRate,
    // On machines that have much else to do. It is for the rules of progress alone.
    slackMs: 3000,
    safetyMarginMs: safetyMargin === undefined ? undefined : parseDuration('safetyMargin', safetyMargin),
  };
}

/**
 * What was said, and what the fence let happen. `ledger`: what it has accepted, in its own order, where it keeps that; elsewhere the
 * word of who wrote is taken.
 */
export function historyOf(
  lines: readonly HistoryLine[],
  ledger: readonly LedgerEntry[] | undefined,
  fence: string,
  endMs: number,
): History {
  const ends = lines.filter(({ act, phase }) => (act === 'activate' || act === 'write') && phase !== 'invoke');
  const invokes = new Map(
    lines.filter(({ phase }) => phase === 'invoke').map((line) => [`${line.process} ${line.call}`, line]),
  );
  const sentAt = (line: HistoryLine): number => invokes.get(`${line.process} ${line.call}`)?.atMs ?? line.atMs;
  const row = (line: HistoryLine, atMs: number, accepted: boolean): Draft => ({
    atMs,
    fence,
    resource: line.resource ?? '',
    act: line.act as 'activate' | 'write',
    leaseId: line.leaseId ?? '',
    fencingToken: line.fencingToken ?? 0,
    accepted,
    writeId: line.writeId,
  });
  const refused = ends
    .filter(({ phase, outcome }) => phase === 'fail' && outcome === 'STALE_TOKEN')
    .map((line) => row(line, line.atMs, false));
  // An activation has happened when it is confirmed, a write not before it is sent: so what stands behind an activation here
  // was accepted after it, whatever took long.
  const activations = ends.filter(({ act, phase }) => act === 'activate' && phase === 'ok');
  const activated = activations.map((line) => row(line, line.atMs, true));
  const confirmed = ends
    .filter(({ act, phase }) => act === 'write' && phase === 'ok')
    .map((line) => row(line, sentAt(line), true));
  const written = ledger === undefined ? byTime(confirmed) : ofLedger(ledger, lines, row);
  return { lines, fences: inOrder(merged(written, byTime([...activated, ...refused]))), grants: [], endMs };
}

type Draft = Omit<FenceRow, 'order'>;

function byTime(rows: readonly Draft[]): readonly Draft[] {
  return [...rows].sort((a, b) => a.atMs - b.atMs);
}

/** In the order of the ledger, also what was never confirmed. */
function ofLedger(
  ledger: readonly LedgerEntry[],
  lines: readonly HistoryLine[],
  row: (line: HistoryLine, atMs: number, accepted: boolean) => Draft,
): readonly Draft[] {
  const sent = new Map(
    lines.filter(({ act, phase }) => act === 'write' && phase === 'invoke').map((line) => [line.writeId, line]),
  );
  let atMs = 0;
  return ledger.flatMap(({ writeId, fencingToken, leaseId }, index) => {
    const line = sent.get(writeId);
    if (line === undefined) return [];
    // Accepted not before those that stand before it.
    atMs = Math.max(atMs, line.atMs);
    return [{ ...row(line, atMs, true), fencingToken, leaseId, before: index, after: index + 1 }];
  });
}

/** Each in its own order; the earlier one first. */
function merged(writes: readonly Draft[], others: readonly Draft[]): readonly Draft[] {
  const rows: Draft[] = [];
  let next = 0;
  for (const other of others) {
    for (; next < writes.length && (writes[next]?.atMs ?? Infinity) < other.atMs; next++)
      rows.push(writes[next] as Draft);
    rows.push(other);
  }
  return [...rows, ...writes.slice(next)];
}

function inOrder(rows: readonly Draft[]): readonly FenceRow[] {
  return rows.map((row, order) => ({ order, ...row }));
}
