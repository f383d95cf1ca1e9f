import type { Style, Tone } from './style.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Gives way when the terminal is too narrow for all: `last` only when the others can no more. */
  readonly yields?: 'first' | 'last';
}

export interface Cell {
  readonly text: string;
  readonly tone?: Tone | undefined;
}

const GAP = '  ';
/** What yields is not made narrower, as long as that suffices. */
const LEAST = 10;
const VERY_LEAST = 4;
/** An instant is never cut, a name that is longer is. */
const INSTANT = 24;

/** Columns for a pipe: tabs, nothing cut off. The cells are escaped, so none contains a tab. */
export function tabbed(columns: readonly Column[], rows: readonly (readonly Cell[])[], style: Style): string {
  const lines = [
    columns.map(({ title }) => title),
    ...rows.map((row) => row.map(({ text, tone }) => (tone === undefined ? text : style(tone, text)))),
  ];
  return lines.map((line) => `${line.join('\t')}\n`).join('');
}

interface Room {
  readonly width: number;
  readonly style: Style;
  /** What is too much, if all that yields has yielded: of names, or (the default) of nothing, so that the lines are too wide. */
  readonly cuts?: 'names' | undefined;
}

/** Columns for a terminal that is `width` wide. */
export async function aligned(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width, style, cuts }: Room,
): Promise<string> {
  const { default: widthOf } = await import('string-width');
  const wanted = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...rows.map((row) => widthOf(row[index]?.text ?? ''))),
  );
  const widths = fitted(columns, wanted, { width, cuts });
  const head = columns.map(({ title }): Cell => ({ text: title, tone: 'quiet' }));
  return [head, ...rows].map((row) => `${line(row)}\n`).join('');

  function line(row: readonly Cell[]): string {
    const last = row.length - 1;
    const cells = row.map(({ text, tone }, index) => {
      const room = widths[index] ?? 0;
      const shown = cut(text, room, widthOf);
      const space = ' '.repeat(Math.max(0, room - widthOf(shown)));
      const styled = tone === undefined || shown === '' ? shown : style(tone, shown);
      if (columns[index]?.align === 'right') return `${space}${styled}`;
      return index === last ? styled : `${styled}${space}`;
    });
    return cells.join(GAP).trimEnd();
  }
}

/**
 * Takes what is too much from the widest of those that yield first, then of those that yield last; at the wish of who
 * asks then from long names, and at last from what yields once more. Numbers are never cut, because a part of one is another one.
 */
function fitted(
  columns: readonly Column[],
  wanted: readonly number[],
  { width, cuts }: Pick<Room, 'width' | 'cuts'>,
): number[] {
  const widths = [...wanted];
  let excess = widths.reduce((sum, its) => sum + its, GAP.length * (columns.length - 1)) - width;
  const turns: readonly (readonly [least: number, isOf: (column: Column) => boolean])[] = [
    [LEAST, ({ yields }) => yields === 'first'],
    [LEAST, ({ yields }) => yields === 'last'],
    [INSTANT, ({ align }) => align !== 'right'],
    [VERY_LEAST, ({ yields }) => yields !== undefined],
  ];
  for (const [least, isOf] of cuts === undefined ? turns.slice(0, 2) : turns) {
    const indexes = columns.flatMap((column, index) => (isOf(column) ? [index] : []));
    for (; excess > 0; excess--) {
      const wide = indexes.filter((index) => (widths[index] ?? 0) > least);
      if (wide.length === 0) break;
      const widest = wide.reduce((a, b) => ((widths[b] ?? 0) > (widths[a] ?? 0) ? b : a));
      widths[widest] = (widths[widest] ?? 0) - 1;
    }
  }
  return widths;
}

/** Cut between characters as a reader sees them, with a mark for what is missing. */
export function cut(text: string, room: number, widthOf: (text: string) => number): string {
  if (widthOf(text) <= room) return text;
  let kept = '';
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (widthOf(kept + segment) > room - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}
