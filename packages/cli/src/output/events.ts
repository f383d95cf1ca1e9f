import type { HistoryEntry, TickInfo } from '@leasehold/core';
import type { Output } from './output.ts';
import type { Tone } from './style.ts';
import { tokenText } from './lease.ts';
import type { Cell, Column } from './table.ts';

const EVENT_COLUMNS: readonly Column[] = [
  { title: 'WHEN' },
  { title: 'EVENT' },
  { title: 'OWNER', yields: 'first' },
  { title: 'TOKEN', align: 'right' },
  { title: 'DETAIL', yields: 'first' },
];

const EVENT_TONES: Readonly<Record<HistoryEntry['event'], Tone>> = {
  acquired: 'good',
  released: 'quiet',
  adopted: 'good',
  expired: 'bad',
  lost: 'bad',
  revoked: 'warning',
  refused: 'bad',
  forced: 'warning',
  sealed: 'warning',
};

/** The newest first. That a lease ran out is written when somebody takes it over, which may be after what came later. */
export function byTime(events: readonly HistoryEntry[]): readonly HistoryEntry[] {
  return events.toSorted((a, b) => b.at.getTime() - a.at.getTime());
}

export function eventTable(
  output: Output,
  events: readonly HistoryEntry[],
  shown: { readonly head?: boolean } = {},
): Promise<void> {
  return output.table(
    EVENT_COLUMNS,
    events.map((entry): Cell[] => [
      { text: output.instant(entry.at) },
      { text: entry.event.toUpperCase(), tone: EVENT_TONES[entry.event] },
      { text: entry.owner === '' ? '-' : entry.owner },
      { text: tokenText(entry.fencingToken) },
      { text: [entry.detail, tickText(entry)].filter((part) => part !== '').join(' · ') || '-' },
    ]),
    shown,
  );
}

function tickText({ job, tick }: HistoryEntry): string {
  return job === null || tick === null ? '' : `${job} ${tick.toISOString()}`;
}

const TICK_COLUMNS: readonly Column[] = [
  { title: 'TICK' },
  { title: 'OUTCOME' },
  { title: 'ATTEMPT', align: 'right' },
  { title: 'OWNER', yields: 'first' },
  { title: 'TOKEN', align: 'right' },
];

const OUTCOME_TONES: Readonly<Record<TickInfo['status'], Tone>> = {
  claimed: 'warning',
  done: 'good',
  failed: 'bad',
  aborted: 'bad',
};

/** The newest last. A tick is an instant of a schedule: what people compare it with is written as instants, so it is never relative. */
export function tickTable(output: Output, ticks: readonly TickInfo[]): Promise<void> {
  return output.table(TICK_COLUMNS, ticks.toReversed().map(tickRow));
}

function tickRow(tick: TickInfo): Cell[] {
  return [
    { text: tick.tick.toISOString() },
    { text: tick.status.toUpperCase(), tone: OUTCOME_TONES[tick.status] },
    { text: String(tick.attempt) },
    { text: tick.owner === '' ? '-' : tick.owner },
    { text: tokenText(tick.fencingToken) },
  ];
}

const JOB_COLUMNS: readonly Column[] = [{ title: 'JOB', yields: 'last' }, ...TICK_COLUMNS];

/** Of several jobs: for each what has been, then what is to come, as time goes. `ticks` have the newest first. */
export function jobRunTable(
  output: Output,
  jobs: readonly { readonly job: string; readonly ticks: readonly TickInfo[]; readonly next: readonly Date[] }[],
): Promise<void> {
  const rows = jobs.flatMap(({ job, ticks, next }) => [
    ...ticks.toReversed().map((tick) => [{ text: job }, ...tickRow(tick)]),
    ...next.map((at): Cell[] => [
      { text: job },
      { text: at.toISOString() },
      { text: 'NEXT' },
      ...['-', '-', '-'].map((text) => ({ text })),
    ]),
  ]);
  return output.table(JOB_COLUMNS, rows);
}
