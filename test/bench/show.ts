// The same figures as text: for a terminal, and as tables of a page.
import { short } from './numbers.ts';
import type { Noise, Report, Table, Target } from './report.ts';

const columnsOf = ({ rows }: Table): readonly string[] => [...new Set(rows.flatMap(({ more }) => Object.keys(more)))];

/** Title row first. */
export function cellsOf(table: Table): readonly (readonly string[])[] {
  const columns = columnsOf(table);
  const name = table.rows[0]?.name ?? '';
  const first = name.startsWith('floor') ? 'floor' : name;
  const hasRatio = table.rows.some(({ ratio }) => ratio !== null);
  const isOnce = table.isOnce === true;
  const measure = isOnce ? [table.unit] : [`${table.unit}, median`, 'p10–p90'];
  const head = ['', ...measure, ...(hasRatio ? [`÷ ${first}`, 'p10–p90'] : []), ...columns];
  const rows = table.rows.map(({ name, value, ratio, more }) => [
    name,
    short(value.median),
    ...(isOnce ? [] : [`${short(value.p10)}–${short(value.p90)}`]),
    ...(hasRatio
      ? ratio === null
        ? ['', '']
        : [ratio.median.toFixed(2), `${ratio.p10.toFixed(2)}–${ratio.p90.toFixed(2)}`]
      : []),
    ...columns.map((column) => (more[column] === undefined ? '' : short(more[column]))),
  ]);
  return [head, ...rows];
}

export function targetText({ what, rule, limit, unit, measured, isMet }: Target): string {
  const u = unit === '' ? '' : ` ${unit}`;
  return `${isMet ? 'met   ' : 'MISSED'}  ${what}: ${short(measured)}${u}, ${rule} ${limit}${u}`;
}

/** Somebody waited for a core in more of the time before it began: then others were at work. */
const BUSY = 0.3;

export const isBusy = ({ noise }: Report): boolean => (noise.before.waiting ?? 0) > BUSY;

export const AT_WORK =
  'Others were at work on the machine at that time: these figures show the form of an answer, and no answer.';

export function noiseText({ before, during }: Report['noise']): string {
  const one = ({ load, waiting }: Noise): string =>
    waiting === null
      ? `load ${load}`
      : `load ${load}, somebody waited for a core in ${Math.round(waiting * 100)} % of the time`;
  return `before: ${one(before)}; during: ${one(during)}`;
}

export const versionsText = ({ versions }: Report): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');

export function plain(report: Report): string {
  const lines = [`\n${report.title} (${report.name}, ${report.size}, ${report.tookS} s)`];
  for (const table of report.tables) {
    const cells = cellsOf(table);
    const widths = (cells[0] ?? []).map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)));
    lines.push('', `  ${table.title}, ${table.better} is better`);
    for (const row of cells) {
      const padded = row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)));
      lines.push(`  ${padded.join('   ')}`.trimEnd());
    }
  }
  lines.push('');
  for (const target of report.targets) lines.push(`  ${targetText(target)}`);
  for (const { name, why } of report.leftOut ?? []) lines.push(`  left out: ${name}, because ${why}`);
  lines.push(`  ${report.machine}; ${versionsText(report)}`, `  ${noiseText(report.noise)}`);
  if (report.size === 'quick') lines.push('  Quick: few rounds, and some tables are left out.');
  if (isBusy(report)) lines.push(`  ${AT_WORK}`);
  return lines.join('\n');
}
