import type { ProofRun } from '../drill/run-proof.ts';
import { drillPicture, type Ownership, type Picture } from './drill-picture.ts';
import { axisTicks } from './timeline-axis.ts';
import { rounded, svgLine, svgText, xml } from './svg.ts';

// Pixels.
const WIDTH = 1000;
const LEFT = 110;
const RIGHT = 20;
const HEAD = 60;
const LANE = 62;
const LETTER = 6.6;

/** The colours are of the palette of Okabe and Ito; each has its outline, hatching and word as well. */
const COLOURS = { owner: '#0072B2', successor: '#009E73', fault: '#E69F00', refused: '#D55E00' } as const;

const LANES = ['owner', 'successor', 'fence'] as const;
type Lane = (typeof LANES)[number];

/** Around a point at the origin: who has written, and what was refused. */
const MARKS = {
  owner: { path: 'M-4 5L0 -5L4 5Z', colour: COLOURS.owner, word: 'write of the owner, accepted' },
  successor: { path: 'M0 -6L4 0L0 6L-4 0Z', colour: COLOURS.successor, word: 'write of the successor, accepted' },
  refused: { path: 'M-5 -5L5 5M5 -5L-5 5', colour: COLOURS.refused, word: 'refused by the fence' },
  aborted: { path: 'M-6 -5H6L0 6Z', colour: '#fff', word: 'told that its lease is over' },
} as const;
type Mark = keyof typeof MARKS;

type Place = (atMs: number) => number;

/**
 * Who owned what when in one run of a proof: a lane for each process and one for the fence, the fault as a band over them. `id`: letters
 * and hyphens, unique in a page. A picture that needs nothing else, with everything in it also in words.
 */
export function drillSvg(run: ProofRun, id: string): string {
  const picture = drillPicture(run.history);
  const span = Math.max(1, picture.toMs - picture.fromMs);
  const place: Place = (atMs) =>
    rounded(
      LEFT +
        ((Math.min(Math.max(atMs, picture.fromMs), picture.toMs) - picture.fromMs) / span) * (WIDTH - LEFT - RIGHT),
    );
  const axisY = HEAD + LANES.length * LANE;
  const height = axisY + 92;
  const title = `${run.proof.name}: ${run.proof.fault}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11" fill="#000">`,
    `<title>${xml(title)}</title>`,
    `<desc>${xml(picture.words.join(' '))}</desc>`,
    `<defs>${hatch(`${id}-fault`, COLOURS.fault, 'M0 6L6 0')}${hatch(`${id}-held`, '#fff', 'M0 3H6')}</defs>`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    svgText(20, 22, title, 'font-size="14" font-weight="bold"', 105),
    ...faultBand(picture, place, axisY, id),
    ...LANES.flatMap((lane, index) => laneParts(picture, lane, HEAD + index * LANE, place, id)),
    ...axisParts(picture, place, axisY),
    ...legend(axisY + 46, id),
    '</svg>\n',
  ].join('\n');
}

function faultBand({ faults }: Picture, place: Place, axisY: number, id: string): string[] {
  return faults.flatMap(({ name, fromMs, untilMs }, index) => {
    const x = place(fromMs);
    const width = Math.max(3, place(untilMs) - x);
    const label = `fault: ${name}`;
    const at = Math.min(x, WIDTH - RIGHT - label.length * LETTER);
    return [
      `<rect x="${x}" y="${HEAD}" width="${rounded(width)}" height="${axisY - HEAD}" fill="url(#${id}-fault)" fill-opacity="0.35" stroke="${COLOURS.fault}"><title>${xml(label)}</title></rect>`,
      svgText(at, HEAD - 5 - 12 * (index % 2), label, 'font-weight="bold"'),
    ];
  });
}

function laneParts(picture: Picture, lane: Lane, y: number, place: Place, id: string): string[] {
  const middle = y + LANE / 2;
  return [
    svgLine(20, y, WIDTH - RIGHT, y, '#ddd'),
    svgText(20, middle + 4, lane, 'font-weight="bold"'),
    ...picture.ownerships.filter((its) => its.process === lane).flatMap((its) => bars(its, y, place, id)),
    ...picture.ends
      .filter(({ process }) => process === lane)
      .flatMap(({ atMs, word }) => [
        svgLine(place(atMs), y + 8, place(atMs), y + LANE - 8, '#000'),
        svgText(beside(place(atMs), word), y + LANE - 5, word),
      ]),
    ...picture.aborts.filter(({ process }) => process === lane).map(({ atMs }) => mark('aborted', place(atMs), y + 10)),
    ...(lane === 'fence' ? picture.writes.map(({ atMs, kind }) => mark(kind, place(atMs), writeY(kind, middle))) : []),
  ];
}

/** Where a word begins that stands at a line: behind it, or before it where there is no room. */
function beside(x: number, word: string): number {
  const width = word.length * LETTER + 5;
  return x + width > WIDTH - RIGHT ? x - width : x + 4;
}

/** Those of each on a height of its own, so that neither hides the other. */
function writeY(kind: Mark, middle: number): number {
  return middle + (kind === 'owner' ? -16 : kind === 'successor' ? 0 : 16);
}

function bars(
  { process, token, fromMs, believedMs, heldMs }: Ownership,
  y: number,
  place: Place,
  id: string,
): string[] {
  const x = place(fromMs);
  const wide = (untilMs: number): number => rounded(Math.max(2, place(untilMs) - x));
  const colour = process === 'owner' ? COLOURS.owner : COLOURS.successor;
  return [
    `<rect x="${x}" y="${y + 18}" width="${wide(believedMs)}" height="14" fill="${colour}" stroke="#000"><title>${process} believes that it owns it</title></rect>`,
    `<rect x="${x}" y="${y + 36}" width="${wide(heldMs)}" height="7" fill="url(#${id}-held)" stroke="#000"><title>held for ${process} by the store</title></rect>`,
    svgText(Math.min(x, WIDTH - RIGHT - 180), y + 13, `token ${token}`),
  ];
}

function mark(kind: Mark, x: number, y: number): string {
  const { path, colour, word } = MARKS[kind];
  const look =
    kind === 'refused' ? `fill="none" stroke="${colour}" stroke-width="2.5"` : `fill="${colour}" stroke="#000"`;
  return `<path transform="translate(${x} ${y})" d="${path}" ${look}><title>${word}</title></path>`;
}

/** Seconds from the beginning of the fault. */
function axisParts({ fromMs, toMs, zeroMs }: Picture, place: Place, y: number): string[] {
  return [
    svgLine(LEFT, y, WIDTH - RIGHT, y, '#000'),
    ...axisTicks(fromMs - zeroMs, toMs - zeroMs).flatMap(({ at }) => [
      svgLine(place(at + zeroMs), y, place(at + zeroMs), y + 5, '#000'),
      svgText(place(at + zeroMs), y + 18, secondsText(at), 'text-anchor="middle"'),
    ]),
    svgText(20, y + 18, 'since the fault'),
  ];
}

function secondsText(ms: number): string {
  return `${ms < 0 ? '\u2212' : ''}${Number((Math.abs(ms) / 1000).toFixed(3))} s`;
}

function legend(y: number, id: string): string[] {
  const parts: string[] = [];
  let x = 20;
  const add = (draw: (x: number) => string, word: string): void => {
    if (x + 24 + word.length * LETTER > WIDTH) [x, y] = [20, y + 20];
    parts.push(draw(x), svgText(x + 24, y + 4, word));
    x += 36 + word.length * LETTER;
  };
  const box = (fill: string) => (at: number) =>
    `<rect x="${rounded(at)}" y="${y - 5}" width="18" height="10" fill="${fill}" stroke="#000"/>`;
  add(box(COLOURS.owner), 'owner believes');
  add(box(COLOURS.successor), 'successor believes');
  add(box(`url(#${id}-held)`), 'held by the store');
  add(box(`url(#${id}-fault)`), 'fault');
  for (const kind of Object.keys(MARKS) as Mark[]) add((at) => mark(kind, rounded(at + 9), y), MARKS[kind].word);
  return parts;
}

function hatch(id: string, colour: string, path: string): string {
  return `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="${colour}"/><path d="${path}" stroke="#000" stroke-width="0.8"/></pattern>`;
}
