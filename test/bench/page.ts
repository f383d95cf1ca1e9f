// docs/performance.md: what stands between its marks is written from the JSON, and nothing else is touched.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { isScale, names } from './catalog.ts';
import { short } from './numbers.ts';
import type { Report, Table } from './report.ts';
import { AT_WORK, cellsOf, isBusy, noiseText, versionsText } from './show.ts';

const docs = new URL('../../docs/', import.meta.url);
export const pagePath: string = fileURLToPath(new URL('performance.md', docs));
export const jsonPath = (name: string): string => fileURLToPath(new URL(`performance/${name}.json`, docs));
export const picturePath = (name: string): string => fileURLToPath(new URL(`performance/${name}.svg`, docs));

/** What was kept, in the order of the page. */
export function keptReports(): readonly Report[] {
  return names
    .filter((name) => existsSync(jsonPath(name)))
    .map((name) => JSON.parse(readFileSync(jsonPath(name), 'utf8')) as Report);
}

/** docs/performance.md with its parts renewed. A mark that names no benchmark, or a report without a mark, is an error. */
export function renewed(page: string, reports: readonly Report[]): string {
  const its = reports.filter(({ name }) => !isScale(name));
  const parts = [['targets', targetsPart(its)], ...its.map((report) => [report.name, reportPart(report)] as const)];
  return filled(page, new Map(parts as [string, string][]), (name) => names.includes(name) && !isScale(name));
}

/** What stands between the marks of a page, in place of what stood there. */
export function filled(page: string, parts: ReadonlyMap<string, string>, isKnown: (name: string) => boolean): string {
  const written = new Set<string>();
  const result = page.replaceAll(
    /^<!-- bench: (\S+) -->\n[^]*?^<!-- end -->$/gm,
    (_part: string, name: string): string => {
      const part = parts.get(name);
      if (part === undefined && !isKnown(name)) throw new Error(`the page has a place for ${name}, which is none`);
      written.add(name);
      return `<!-- bench: ${name} -->\n${part ?? 'Not measured yet.'}\n<!-- end -->`;
    },
  );
  const homeless = [...parts.keys()].filter((name) => !written.has(name));
  if (homeless.length > 0) throw new Error(`the page has no place for ${homeless.join(', ')}`);
  return result;
}

/** The first column is text, and so are those of `words`. */
export function tableText(cells: readonly (readonly string[])[], words: readonly number[] = []): string {
  const [head = [], ...rows] = cells.map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const rule = head.map((_, at) => (at === 0 || words.includes(at) ? '---' : '--:'));
  return [head, rule, ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export function targetsPart(reports: readonly Report[]): string {
  const rows = reports.flatMap((report) =>
    report.targets.map(({ what, rule, limit, unit, measured, isMet }) => [
      `[${report.title}](#${anchor(report.title)})`,
      what,
      `${rule} ${limit} ${unit}`.trim(),
      `${short(measured)} ${unit}`.trim(),
      isMet ? 'met' : '**missed**',
      circumstances(report),
    ]),
  );
  const met = rows.filter((row) => row[4] === 'met').length;
  return [
    `${met} of ${rows.length} targets were met in these runs.`,
    '',
    tableText([['', 'what', 'target', 'measured', '', 'run'], ...rows], [1, 4, 5]),
  ].join('\n');
}

const circumstances = (report: Report): string => `${report.size}${isBusy(report) ? ', on a busy machine' : ''}`;

export function reportPart(report: Report): string {
  const { name, title, method, date, tookS, machine, tables, curves, leftOut = [] } = report;
  return [
    method,
    ...(isBusy(report) ? ['', `**${AT_WORK}**`] : []),
    '',
    `![${title}: ${curves === undefined ? 'the medians of' : 'curves of some of'} the tables below](performance/${name}.svg)`,
    ...(curves ?? []).flatMap((curve) => (curve.bend === undefined ? [] : ['', `**${curve.title}.** ${curve.bend}`])),
    ...tables.flatMap((table: Table) => [
      '',
      `**${table.title}**${table.isOnce === true ? '' : ` (${table.better} is better)`}`,
      '',
      tableText(cellsOf(table)),
    ]),
    ...(leftOut.length === 0
      ? []
      : ['', `Left out: ${leftOut.map((its) => `${its.name}, because ${its.why}`).join('; ')}.`]),
    '',
    `\`npm run bench -- ${name}${report.size === 'quick' ? ' --quick' : ''}\`, ${date}, ${tookS} s. ${machine}; ${versionsText(report)}. ${sentence(noiseText(report.noise))}.`,
  ].join('\n');
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const anchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
