// Plays the benchmarks that are named, or all. A full one is kept in docs/performance, and docs/performance.md and docs/scaling.md are renewed; a
// quick one is only shown, and kept where nobody looks, unless `--keep` says so.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { cacheFolder } from '../../scripts/services/binaries.mjs';
import { readArguments } from './arguments.ts';
import { benchmarksNamed } from './catalog.ts';
import { jsonPath, keptReports, pagePath, picturePath, renewed } from './page.ts';
import { picture } from './picture.ts';
import { play } from './play.ts';
import type { Report } from './report.ts';
import { scaled, scalingPath } from './scaling-page.ts';
import { plain, targetText } from './show.ts';

const { names, size, isKept, page } = readArguments(process.argv.slice(2));
if (page) showPage();
else await playAll();
process.exit(0);

function showPage(): void {
  const written = renewPage();
  for (const file of written) console.log(`written: ${relative(process.cwd(), file)}`);
  if (written.length === 0) console.log('all pages and pictures say already what was kept');
}

async function playAll(): Promise<void> {
  const reports: Report[] = [];
  for (const benchmark of await benchmarksNamed(names)) {
    console.log(`\n… ${benchmark.title}`);
    const report = await play(benchmark, { size });
    reports.push(report);
    console.log(plain(report));
    keep(report);
  }
  if (isKept) renewPage();
  const targets = reports.flatMap((report) => report.targets);
  if (targets.length > 0) console.log(`\nTargets\n${targets.map((each) => `  ${targetText(each)}`).join('\n')}`);
  console.log(`\n${reports.reduce((total, { tookS }) => total + tookS, 0)} s in all`);
}

function keep(report: Report): void {
  const path = (file: string): string => join(cacheFolder, 'bench', file);
  const json = isKept ? jsonPath(report.name) : path(`${report.name}.json`);
  mkdirSync(dirname(json), { recursive: true });
  const text = JSON.stringify(report, null, 2);
  writeFileSync(json, `${text}\n`);
  // As it will be read.
  writeFileSync(isKept ? picturePath(report.name) : path(`${report.name}.svg`), picture(JSON.parse(text) as Report));
  console.log(`  kept: ${json}`);
}

/** Pictures and tables, from what was kept. Gives the files that are other than before. */
function renewPage(): readonly string[] {
  const reports = keptReports();
  const files: readonly (readonly [path: string, text: string])[] = [
    ...reports.map((report) => [picturePath(report.name), picture(report)] as const),
    [pagePath, renewed(readFileSync(pagePath, 'utf8'), reports)],
    [scalingPath, scaled(readFileSync(scalingPath, 'utf8'), reports)],
  ];
  const changed = files.filter(([path, text]) => !existsSync(path) || readFileSync(path, 'utf8') !== text);
  for (const [path, text] of changed) writeFileSync(path, text);
  return changed.map(([path]) => path);
}
