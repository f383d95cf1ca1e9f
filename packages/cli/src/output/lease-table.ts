import type { LeaseInfo } from '@leasehold/core';
import { concern, stateTone, stateWord, tokenText } from './lease.ts';
import type { Cell, Column } from './table.ts';
import { formatDuration } from './time.ts';

/** The columns of `leaseRow`. */
export const LEASE_COLUMNS: readonly Column[] = [
  { title: 'STATE' },
  { title: 'RESOURCE', yields: 'last' },
  { title: 'OWNER', yields: 'first' },
  { title: 'TOKEN', align: 'right' },
  { title: 'LEFT', align: 'right' },
  { title: 'WAIT', align: 'right' },
  { title: 'NOTE', yields: 'first' },
];

/** Not escaped. */
export function leaseRow(info: LeaseInfo): Cell[] {
  const word = stateWord(info);
  return [
    { text: word, tone: stateTone(word) },
    { text: info.resource },
    { text: info.owner === '' ? '-' : info.owner },
    { text: tokenText(info.fencingToken) },
    { text: info.state === 'held' ? formatDuration(info.remainingMs) : '-' },
    { text: String(info.waiting), tone: info.waiting > 0 ? 'warning' : undefined },
    { text: concern(info) || '-' },
  ];
}

/** How many are in which state. */
export function leaseCounts(found: readonly LeaseInfo[]): Readonly<Record<LeaseInfo['state'], number>> {
  const count = (state: LeaseInfo['state']): number => found.filter((info) => info.state === state).length;
  return { held: count('held'), expired: count('expired'), free: count('free') };
}
