import type { HistoryEntry } from '@leasehold/core';
import { formatDuration } from './time.ts';
import { LETTERS, svgLine as line, svgText as text, rounded, xml } from './svg.ts';
import { axisTicks } from './timeline-axis.ts';
import { isIncomplete, tenuresOf, type Tenure, type TenureEnd, type TenureMark } from './timeline.ts';

// Pixels. The widths of letters are those of the usual monospaced fonts, whose letters are 0.6 of their size.
const WIDTH = 1000;
const MARGIN = 20;
const LETTER = 6.6;
const ROW = 66;
const BAR = 16;
const LINE = 16;
const HEAD = 64;
/** Nothing thinner can be seen. */
const LEAST_BAR = 3;
/** How far a bar with an unknown end is drawn. */
const STUB = 14;

interface Look {
  readonly colour: string;
  /** Inside of the bar: without colours ends are told apart by it. */
  readonly hatch: string;
  readonly word: string;
}

/** The colours are of the palette of Okabe and Ito, which people of all kinds of colour vision can tell apart. */
const LOOKS: Readonly<Record<TenureEnd, Look>> = {
  released: { colour: '#0072B2', hatch: '', word: 'released' },
  'handed-over': { colour: '#56B4E9', hatch: 'M3 0V6', word: 'handed over' },
  open: { colour: '#009E73', hatch: 'M0 3H6', word: 'no end yet' },
  expired: { colour: '#E69F00', hatch: 'M0 6L6 0', word: 'expired' },
  lost: { colour: '#D55E00', hatch: 'M0 6L6 0M0 0L6 6', word: 'lost' },
  refused: { colour: '#CC79A7', hatch: 'M0 0L6 6', word: 'refused' },
  forced: { colour: '#000000', hatch: 'M0 3H6M3 0V6', word: 'released by force' },
  unknown: { colour: '#BBBBBB', hatch: '', word: 'end not kept' },
};

/** Around a point at the origin; each another outline. */
const MARKS: Readonly<Record<TenureMark['event'], string>> = {
  revoked: 'M-5 -4H5L0 5Z',
  refused: 'M-5 -5L5 5M5 -5L-5 5',
  adopted: 'M0 -6L5 0L0 6L-5 0Z',
  forced: 'M-5 5L0 -6L5 5Z',
};

const INCOMPLETE =
  "Incomplete: a dashed bar has a beginning or an end that was not kept. Acquisitions and releases are kept only by managers with history: 'all', and no log has more than 64 events.";

const NOTHING = 'No events are kept: nothing exceptional has happened.';

interface Place {
  readonly from: number;
  readonly to: number;
}

type Numbered = Tenure & { readonly number: number };

/**
 * The ownership timeline of a resource as one picture that needs nothing else: a row for each owner, a bar for each tenure, a table of
 * them below. `events` as `LeaseManager.history` gives them. No script in it; what others have written is escaped.
 */
export function timelineSvg(resource: string, events: readonly HistoryEntry[], now: Date): string {
  const tenures = tenuresOf(events).map((tenure, index): Numbered => ({ ...tenure, number: index + 1 }));
  const scale = scaleOf(events, now);
  const owners = [...new Set(tenures.map(({ owner }) => owner))];
  const axisY = HEAD + owners.length * ROW + 4;
  const notes = tenures.length === 0 ? [NOTHING] : isIncomplete(tenures) ? wrapped(INCOMPLETE, LETTERS) : [];
  const noteY = axisY + 44;
  const legendY = noteY + notes.length * LINE + 8;
  const tableY = legendY + 64;
  const list = tableLines(tenures);
  const height = tableY + list.length * LINE + MARGIN;
  const title = `Owners of ${resource}`;
  const span = `${new Date(scale.from).toISOString()} to ${new Date(scale.to).toISOString()}, by the clock of the store`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11" fill="#000">`,
    `<title>${xml(title)}</title>`,
    `<desc>${xml([span, ...notes].join(' '))}</desc>`,
    `<defs>${Object.entries(LOOKS).map(patternOf).join('')}</defs>`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    text(MARGIN, 26, title, 'font-size="16" font-weight="bold"', 90),
    text(MARGIN, 44, span),
    ...axis(scale, axisY),
    ...owners.flatMap((owner, index) =>
      row(
        owner,
        tenures.filter((its) => its.owner === owner),
        scale,
        HEAD + index * ROW,
      ),
    ),
    ...notes.map((line, index) => text(MARGIN, noteY + index * LINE, line, 'font-weight="bold"')),
    ...legend(legendY),
    ...list.map((line, index) => text(MARGIN, tableY + index * LINE, line, 'xml:space="preserve"')),
    '</svg>\n',
  ].join('\n');
}

/** From the first event to now. The clocks of the store and of this machine may differ. */
function scaleOf(events: readonly HistoryEntry[], now: Date): Place {
  const times = events.map(({ at }) => at.getTime());
  const from = Math.min(now.getTime(), ...times);
  return { from, to: Math.max(from + 1, now.getTime(), ...times) };
}

function xOf(at: Date | number, { from, to }: Place): number {
  const share = (Number(at) - from) / (to - from);
  return rounded(MARGIN + STUB + share * (WIDTH - 2 * (MARGIN + STUB)));
}

function axis(scale: Place, y: number): string[] {
  const ticks = axisTicks(scale.from, scale.to);
  return [
    ...ticks.map(({ at }) => line(xOf(at, scale), HEAD, xOf(at, scale), y + 5, '#ccc')),
    line(MARGIN, y, WIDTH - MARGIN, y, '#000'),
    ...ticks.map(({ at, label }) => text(xOf(at, scale), y + 18, label, 'text-anchor="middle"')),
    text(WIDTH - MARGIN, y + 30, 'UTC', 'text-anchor="end"'),
  ];
}

function row(owner: string, tenures: readonly Numbered[], scale: Place, y: number): string[] {
  const parts = [line(MARGIN, y, WIDTH - MARGIN, y, '#eee'), text(MARGIN, y + 14, owner || '-', 'font-weight="bold"')];
  let free = 0;
  for (const [index, tenure] of tenures.entries()) {
    const { from, to } = extentOf(tenure, scale);
    const next = tenures[index + 1];
    const room = next === undefined ? WIDTH - MARGIN : extentOf(next, scale).from - 4;
    parts.push(bar(tenure, { from, to }, y + 34));
    const start = Math.max(from, free);
    const label = [`${tenure.number}: ${tenure.fencingToken} ${LOOKS[tenure.end].word}`, String(tenure.number)].find(
      (its) => start + its.length * LETTER <= room,
    );
    // Where there is no room for one: all of them are in the table.
    if (label !== undefined) {
      parts.push(text(start, y + 30, label));
      free = start + (label.length + 1) * LETTER;
    }
    parts.push(...tenure.marks.map((mark) => markAt(mark.event, xOf(mark.at, scale), y + 58)));
  }
  return parts;
}

function extentOf({ from, to, end, marks }: Tenure, scale: Place): Place {
  const known = [from, to, ...marks.map(({ at }) => at)].flatMap((at) => (at === null ? [] : [xOf(at, scale)]));
  const first = Math.min(...known);
  const last = end === 'open' ? xOf(scale.to, scale) : Math.max(...known);
  const start = from === null ? first - STUB : first;
  return { from: start, to: Math.max(end === 'unknown' ? last + STUB : last, start + LEAST_BAR) };
}

function bar(tenure: Numbered, { from, to }: Place, y: number): string {
  const isWhole = tenure.from !== null && tenure.end !== 'unknown';
  const stroke = `stroke="#000"${isWhole ? '' : ' stroke-dasharray="3 2"'}`;
  const tip = `<title>${xml(describe(tenure))}</title>`;
  return `<rect x="${rounded(from)}" y="${y}" width="${rounded(to - from)}" height="${BAR}" fill="url(#${tenure.end})" ${stroke}>${tip}</rect>`;
}

function markAt(event: TenureMark['event'], x: number, y: number): string {
  return `<path transform="translate(${x} ${y})" d="${MARKS[event]}" fill="#fff" stroke="#000" stroke-width="1.5"><title>${event}</title></path>`;
}

function legend(y: number): string[] {
  const parts: string[] = [];
  let x = MARGIN;
  for (const [end, { word }] of Object.entries(LOOKS)) {
    parts.push(
      `<rect x="${rounded(x)}" y="${y}" width="24" height="12" fill="url(#${end})" stroke="#000"/>`,
      text(x + 30, y + 10, word),
    );
    x += 48 + word.length * LETTER;
  }
  x = MARGIN;
  for (const event of Object.keys(MARKS) as TenureMark['event'][]) {
    parts.push(markAt(event, rounded(x + 12), y + 28), text(x + 30, y + 32, event));
    x += 48 + event.length * LETTER;
  }
  return parts;
}

/** All of it in words, for who cannot see the picture, or the small bars in it. */
function tableLines(tenures: readonly Numbered[]): string[] {
  return tenures.flatMap((tenure) => [
    describe(tenure),
    ...tenure.marks.map(({ event, at, detail }) => `      ${event.padEnd(8)} ${at.toISOString()} ${detail}`.trimEnd()),
  ]);
}

function describe({ number, owner, fencingToken, from, to, end }: Numbered): string {
  const beginning = from?.toISOString() ?? 'beginning not kept';
  const lasted = from === null || to === null ? '' : `, ${formatDuration(to.getTime() - from.getTime())}`;
  const ending = `${LOOKS[end].word}${to === null ? '' : ` ${to.toISOString()}`}`;
  return `${String(number).padStart(3)}: token ${fencingToken} · ${beginning} · ${ending}${lasted} · ${owner || '-'}`;
}

function patternOf([end, { colour, hatch }]: readonly [string, Look]): string {
  const lines = hatch === '' ? '' : `<path d="${hatch}" stroke="#000" stroke-width="0.8"/>`;
  return `<pattern id="${end}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="${colour}"/>${lines}</pattern>`;
}

function wrapped(words: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of words.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
