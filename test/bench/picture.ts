// One picture of a benchmark: a bar for each median, a line from the 10th to the 90th percentile of the rounds; or its curves. Chart libraries
// that draw without a browser bring megabytes and a model of documents; this is rectangles and text.
import { curvePanel, CURVE_HEIGHT } from './curve.ts';
import { short } from './numbers.ts';
import type { Kind, Report, Row, Table } from './report.ts';
import { CURVES, escaped, niceStep, round, STYLE, text, WIDTH } from './svg.ts';

const LEFT = 250;
const RIGHT = 150;
const ROW = 24;
const BAR = 14;
const ROOM = WIDTH - LEFT - RIGHT;

const kinds: Readonly<Record<Kind, string>> = {
  floor: 'floor',
  ours: 'Leasehold',
  peer: 'others',
  other: 'for comparison',
};

export function picture({ title, tables, curves, date, machine }: Report): string {
  const parts: string[] = [];
  let y = 30;
  parts.push(text(16, y, title, 'title'));
  if (curves === undefined) {
    y += 22;
    parts.push(...legend(y, tables));
    y += 14;
    for (const table of tables) {
      y += 26;
      parts.push(...panel(table, y));
      y += table.rows.length * ROW + 44;
    }
  } else {
    for (const curve of curves) {
      y += 34;
      parts.push(...curvePanel(curve, y));
      y += CURVE_HEIGHT;
    }
  }
  y += 8;
  const how = curves === undefined ? 'A line goes from p10 to p90 of the rounds.' : 'Each point was measured once.';
  parts.push(text(16, y, `${date}, ${machine}. ${how}`, 'small'));
  const height = y + 16;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}${curves === undefined ? '' : CURVES}</style>`,
    `<rect class="back" width="${WIDTH}" height="${height}"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function legend(y: number, tables: readonly Table[]): string[] {
  const there = new Set(tables.flatMap(({ rows }) => rows.map(({ kind }) => kind)));
  let x = 16;
  return (Object.keys(kinds) as Kind[])
    .filter((kind) => there.has(kind))
    .flatMap((kind) => {
      const parts = [
        `<rect class="${kind}" x="${x}" y="${y - 10}" width="12" height="12"/>`,
        text(x + 18, y, kinds[kind], 'small'),
      ];
      x += 18 + kinds[kind].length * 7 + 24;
      return parts;
    });
}

function panel(table: Table, top: number): string[] {
  const scale = scaleOf(table);
  const bottom = top + 12 + table.rows.length * ROW;
  const better = `${table.unit}, ${table.better} is better${scale.isLog ? '; logarithmic' : ''}`;
  return [
    text(16, top, table.title, 'head'),
    text(WIDTH - 16, top, better, 'small', 'end'),
    ...scale.marks.flatMap((mark) => {
      const x = round(LEFT + scale.at(mark));
      return [
        `<line class="grid" x1="${x}" y1="${top + 10}" x2="${x}" y2="${bottom}"/>`,
        text(x, bottom + 14, mark.toLocaleString('en'), 'small', 'middle'),
      ];
    }),
    ...table.rows.flatMap((row, index) => bar(row, scale, top + 12 + index * ROW)),
  ];
}

function bar({ name, kind, value, ratio }: Row, { at }: Scale, y: number): string[] {
  const middle = y + ROW / 2;
  const [end, from, to] = [at(value.median), at(value.p10), at(value.p90)].map(round) as [number, number, number];
  const beside = ratio === null ? short(value.median) : `${short(value.median)} (× ${ratio.median.toFixed(2)})`;
  return [
    text(LEFT - 8, middle + 4, name, '', 'end'),
    `<rect class="${kind}" x="${LEFT}" y="${middle - BAR / 2}" width="${Math.max(1, end)}" height="${BAR}"/>`,
    `<line class="line" x1="${LEFT + from}" y1="${middle}" x2="${LEFT + to}" y2="${middle}"/>`,
    text(LEFT + Math.max(end, to) + 8, middle + 4, beside, 'on'),
  ];
}

interface Scale {
  readonly isLog: boolean;
  /** Pixels from the left edge. */
  at(value: number): number;
  readonly marks: readonly number[];
}

function scaleOf({ rows }: Table): Scale {
  const values = rows.map(({ value }) => value.median).filter((value) => value > 0);
  const most = Math.max(...rows.map(({ value }) => Math.max(value.median, value.p90)), 1e-9);
  const least = Math.min(...values, most);
  if (most / least < 30) {
    const step = niceStep(most / 4);
    const marks = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) =>
      Number((index * step).toPrecision(6)),
    );
    return { isLog: false, at: (value) => (Math.max(0, value) / most) * ROOM, marks };
  }
  const low = 10 ** Math.floor(Math.log10(least) - 0.2);
  const decades = Math.log10(most / low);
  const marks = Array.from({ length: Math.floor(decades) + 1 }, (_, index) =>
    Number((low * 10 ** index).toPrecision(6)),
  );
  return { isLog: true, at: (value) => (Math.log10(Math.max(value, low) / low) / decades) * ROOM, marks };
}
