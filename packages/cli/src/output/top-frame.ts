import type { LeaseInfo } from '@leasehold/core';
import { escapeText } from './escape.ts';
import { LEASE_COLUMNS, leaseCounts, leaseRow } from './lease-table.ts';
import { byTrouble } from './lease.ts';
import { styleOf, type Style } from './style.ts';
import { aligned, cut, type Cell, type Column } from './table.ts';
import { formatDuration } from './time.ts';

/** What the live view shows. */
export interface TopView {
  /** The line that says whom it asks. */
  readonly target: string;
  readonly at: Date;
  readonly leases: readonly LeaseInfo[];
  /** Part of a resource or an owner; empty for all. */
  readonly filter: string;
  /** Whether somebody is typing the filter. */
  readonly isTyping: boolean;
  /** Why there was no newer answer, and for how long there was none. */
  readonly trouble: { readonly message: string; readonly sinceMs: number } | undefined;
}

interface Room {
  readonly width: number;
  readonly height: number;
  readonly style: Style;
}

/** What goes when a terminal is too narrow for all columns, the first first. */
const DROPPED = ['TOKEN', 'NOTE', 'WAIT', 'OWNER', 'LEFT'] as const;

/** The lines of one picture, never more nor longer than there is room for. The most trouble first. */
export async function topFrame(view: TopView, room: Room): Promise<readonly string[]> {
  const { default: widthOf } = await import('string-width');
  const { width, height, style } = room;
  const { leases, filter, isTyping, trouble } = view;
  const counts = leaseCounts(leases);
  const waiting = leases.reduce((sum, its) => sum + its.waiting, 0);
  const shown = leases
    .filter(({ resource, owner }) => resource.includes(filter) || owner.includes(filter))
    .toSorted(byTrouble);
  const text = (line: string): string => cut(escapeText(line), width, widthOf);
  const summary = `${counts.held} HELD · ${counts.expired} EXPIRED · ${counts.free} FREE · ${waiting} waiting`;
  const head = [style('strong', text(summary))];
  if (height > 3) head.push(style('quiet', text(`${view.at.toISOString().slice(11, 19)} UTC · ${view.target}`)));
  if (trouble !== undefined && height > 1) {
    head.push(style('bad', text(`As of ${formatDuration(trouble.sinceMs)} ago: ${trouble.message}`)));
  }
  const room4rows = height - head.length - 2;
  const rows = shown.slice(0, Math.max(0, room4rows));
  const more = shown.length - rows.length;
  const foot = [
    isTyping ? `/${filter}_  Enter keeps it, Esc ends it` : 'q quits · / filters',
    ...(!isTyping && filter !== '' ? [`only '${filter}' · Esc shows all`] : []),
    ...(more > 0 ? [`${more} more`] : []),
  ].join(' · ');
  const lines = [...head];
  if (room4rows > 0) {
    if (rows.length > 0) lines.push(...(await tableLines(rows, room, widthOf)));
    else lines.push('', text(leases.length === 0 ? 'No resources.' : 'No resource matches.'));
  }
  // Where people look for it, however few rows there are.
  while (lines.length < height - 1) lines.push('');
  return [...lines, style('quiet', text(foot))].slice(0, height);
}

async function tableLines(
  infos: readonly LeaseInfo[],
  { width, style }: Room,
  widthOf: (text: string) => number,
): Promise<readonly string[]> {
  const rows = infos.map((info) => leaseRow(info).map(({ text, tone }) => ({ text: escapeText(text), tone })));
  const dropped = new Set<string>();
  for (const next of [...DROPPED, undefined]) {
    const { columns, cells } = without(rows, dropped);
    // Styled text cannot be measured.
    const plain = linesOf(await aligned(columns, cells, { width, style: styleOf(false) }));
    if (plain.every((line) => widthOf(line) <= width)) return linesOf(await aligned(columns, cells, { width, style }));
    if (next === undefined) return plain.map((line) => cut(line, width, widthOf));
    dropped.add(next);
  }
  return [];
}

function without(
  rows: readonly (readonly Cell[])[],
  dropped: ReadonlySet<string>,
): { readonly columns: readonly Column[]; readonly cells: readonly (readonly Cell[])[] } {
  const isKept = (_: unknown, index: number): boolean => !dropped.has(LEASE_COLUMNS[index]?.title ?? '');
  return { columns: LEASE_COLUMNS.filter(isKept), cells: rows.map((row) => row.filter(isKept)) };
}

function linesOf(table: string): string[] {
  return table.trimEnd().split('\n');
}
