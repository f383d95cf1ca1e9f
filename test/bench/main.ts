// Plays the benchmarks that are named, or all. A full one is kept in docs/performance, and docs/performance.md and docs/scaling.md are renewed; a
// quick one is only shown, and kept where nobody looks, unless `--keep` says so.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { cacheFolder } from '../../scripts/services/binaries.mjs';
import { benchmarksNamed } from './catalog.ts';
import { jsonPath, keptReports, pagePath, picturePath, renewed } from './page.ts';
import { picture } from './picture.ts';
import { play } from './play.ts';
import type { Report } from './report.ts';
import { scaled, scalingPath } from './scaling-page.ts';
import { plain, targetText } from './show.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
  },
});
const isKept = values.keep || !values.quick;
if (values.page) renewPage();
else await playAll();
process.exit(0);

async function playAll(): Promise<void> {
  const size = values.quick ? 'quick' : 'full';
  const reports: Report[] = [];
  for (const benchmark of await benchmarksNamed(positionals)) {
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

/** Pictures and tables, from what was kept. */
function renewPage(): void {
  const reports = keptReports();
  for (const report of reports) writeFileSync(picturePath(report.name), picture(report));
  writeFileSync(pagePath, renewed(readFileSync(pagePath, 'utf8'), reports));
  writeFileSync(scalingPath, scaled(readFileSync(scalingPath, 'utf8'), reports));
}
