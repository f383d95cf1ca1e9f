// A panel of lines: each has a colour, a dash and its name at its end, so that none of them is needed alone.
import { short } from './numbers.ts';
import type { Curve, Line } from './report.ts';
import { niceStep, round, text, WIDTH } from './svg.ts';

const LEFT = 76;
const RIGHT = 270;
const PLOT = 190;
const ROOM = WIDTH - LEFT - RIGHT;
/** Of a panel, with what is written around it. */
export const CURVE_HEIGHT = PLOT + 58;

export function curvePanel({ title, x, y, lines, isLinear = false }: Curve, top: number): string[] {
  const points = lines.flatMap((line) => line.points);
  const across = axis(
    points.map(([value]) => value),
    ROOM,
  );
  const up = axis(
    points.map(([, value]) => value),
    PLOT,
    isLinear,
  );
  const [from, bottom] = [top + 14, top + 14 + PLOT];
  const at = ([px, py]: readonly [number, number]): [number, number] => [
    round(LEFT + across.at(px)),
    round(bottom - up.at(py)),
  ];
  const logs = [across.isLog ? 'across' : '', up.isLog ? 'up' : ''].filter((each) => each !== '');
  return [
    text(16, top, title, 'head'),
    text(WIDTH - 16, top, `${y}${logs.length > 0 ? `; logarithmic ${logs.join(' and ')}` : ''}`, 'small', 'end'),
    ...up.marks.flatMap((mark) => {
      const height = round(bottom - up.at(mark));
      return [
        `<line class="grid" x1="${LEFT}" y1="${height}" x2="${LEFT + ROOM}" y2="${height}"/>`,
        text(LEFT - 8, height + 4, inShort(mark), 'small', 'end'),
      ];
    }),
    ...across.marks.flatMap((mark) => {
      const place = round(LEFT + across.at(mark));
      return [
        `<line class="grid" x1="${place}" y1="${from}" x2="${place}" y2="${bottom}"/>`,
        text(place, bottom + 16, inShort(mark), 'small', 'middle'),
      ];
    }),
    text(LEFT + ROOM, bottom + 32, x, 'small', 'end'),
    ...lines.flatMap((line, index) => lineOf(line, index % 5, at)),
    ...ends(lines, at, bottom),
  ];
}

function lineOf({ points }: Line, style: number, at: (point: readonly [number, number]) => [number, number]): string[] {
  const places = points.map(at);
  return [
    `<polyline class="curve c${style}" points="${places.map((place) => place.join(',')).join(' ')}"/>`,
    ...places.map(([x, y]) => `<circle class="d${style}" cx="${x}" cy="${y}" r="3"/>`),
  ];
}

const APART = 15;

/** The name and the last value of each, beside its end, none on another. */
function ends(
  lines: readonly Line[],
  at: (point: readonly [number, number]) => [number, number],
  bottom: number,
): string[] {
  const labels = lines
    .flatMap(({ name, points }, index) => {
      const last = points.at(-1);
      return last === undefined ? [] : [{ name, style: index % 5, value: last[1], y: at(last)[1] }];
    })
    .sort((a, b) => a.y - b.y);
  // Pushed down from above, and up again where there is no more room.
  let least = -Infinity;
  for (const label of labels) label.y = least = Math.max(label.y, least + APART);
  let most = bottom + APART;
  for (const label of labels.toReversed()) label.y = most = Math.min(label.y, most - APART);
  return labels.flatMap(({ name, style, value, y }) => [
    `<circle class="d${style}" cx="${LEFT + ROOM + 14}" cy="${round(y)}" r="4"/>`,
    text(LEFT + ROOM + 24, y + 4, `${name}: ${short(value)}`, 'on'),
  ]);
}

interface Axis {
  readonly isLog: boolean;
  /** Pixels from its beginning. */
  at(value: number): number;
  readonly marks: readonly number[];
}

function axis(values: readonly number[], room: number, isLinear = false): Axis {
  const most = Math.max(...values, 1e-9);
  const positive = values.filter((value) => value > 0);
  const least = Math.min(...positive, most);
  if (isLinear || most / least < 30 || Math.min(...values) < 0) {
    const low = Math.min(0, ...values);
    const step = niceStep((most - low) / 4);
    const first = Math.ceil(low / step);
    const marks = Array.from({ length: Math.floor(most / step) - first + 1 }, (_, index) =>
      Number(((first + index) * step).toPrecision(6)),
    );
    return { isLog: false, at: (value) => ((value - low) / (most - low)) * room, marks };
  }
  const low = 10 ** Math.floor(Math.log10(least) + 1e-9);
  const decades = Math.log10(most / low);
  const marks = Array.from({ length: Math.floor(decades + 1e-9) + 1 }, (_, index) =>
    Number((low * 10 ** index).toPrecision(6)),
  );
  return { isLog: true, at: (value) => (Math.log10(Math.max(value, low) / low) / decades) * room, marks };
}

function inShort(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))} k` : value.toLocaleString('en');
}
