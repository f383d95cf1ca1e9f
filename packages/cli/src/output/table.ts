import type { Style, Tone } from './style.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Gives way when the terminal is too narrow for all. */
  readonly isFlexible?: boolean;
}

export interface Cell {
  readonly text: string;
  readonly tone?: Tone | undefined;
}

const GAP = '  ';
/** A flexible column is not made narrower. */
const LEAST = 8;

/** Columns for a pipe: tabs, nothing cut off. The cells are escaped, so none contains a tab. */
export function tabbed(columns: readonly Column[], rows: readonly (readonly Cell[])[]): string {
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => row.map(({ text }) => text))];
  return lines.map((line) => `${line.join('\t')}\n`).join('');
}

/** Columns for a terminal that is `width` wide. */
export async function aligned(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width, style }: { readonly width: number; readonly style: Style },
): Promise<string> {
  const { default: widthOf } = await import('string-width');
  const wanted = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...rows.map((row) => widthOf(row[index]?.text ?? ''))),
  );
  const widths = fitted(columns, wanted, width);
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

/** Takes what is too much from the widest flexible column, again and again. */
function fitted(columns: readonly Column[], wanted: readonly number[], width: number): number[] {
  const widths = [...wanted];
  const total = (): number => widths.reduce((sum, its) => sum + its, GAP.length * (columns.length - 1));
  while (total() > width) {
    const candidates = columns
      .map(({ isFlexible = false }, index) => ({ isFlexible, index, its: widths[index] ?? 0 }))
      .filter(({ isFlexible, its }) => isFlexible && its > LEAST)
      .sort((a, b) => b.its - a.its);
    const [widest] = candidates;
    if (widest === undefined) break;
    widths[widest.index] = widest.its - 1;
  }
  return widths;
}

/** Cut between characters as a reader sees them, with a mark for what is missing. */
function cut(text: string, room: number, widthOf: (text: string) => number): string {
  if (widthOf(text) <= room) return text;
  let kept = '';
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (widthOf(kept + segment) > room - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}
