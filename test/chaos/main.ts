// The command `npm run chaos`: episodes, one after the other or side by side, until the time is over or the round.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { find } from '../../scripts/services/binaries.mjs';
import { cleanUp } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { startRedis } from '../support/redis-server.ts';
import { playEpisode, type Episode } from './episode.ts';
import { nemeses } from './nemeses/index.ts';
import { missing } from './needs.ts';
import type { WorkloadName } from './nemesis.ts';
import { nemesesNamed, roundOf, titleOf, WORKLOADS, type Plan } from './plan.ts';
import { Report } from './report.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    seed: { type: 'string', default: `${Date.now() % 2 ** 31}` },
    only: { type: 'string', default: '' },
    workload: { type: 'string', default: WORKLOADS.join(',') },
    pairs: { type: 'boolean', default: false },
    parallel: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '8' },
    list: { type: 'boolean', default: false },
    report: { type: 'string' },
  },
});

/** Of the command line. */
function numberOf(name: 'minutes' | 'seed' | 'parallel' | 'seconds', value: string, least: number): number {
  const number = Number(value);
  if (Number.isFinite(number) && number >= least) return number;
  throw new Error(`--${name} is ${value}: it must be a number from ${least}`);
}

const commas = (text: string): string[] => text.split(',').filter((each) => each !== '');
const seed = numberOf('seed', values.seed, 0);
const parallel = numberOf('parallel', values.parallel, 1);
const strikeMs = numberOf('seconds', values.seconds, 1) * 1000;
const forMs = values.minutes === undefined ? null : numberOf('minutes', values.minutes, 0) * 60_000;
const only = commas(values.only);
const workloads = commas(values.workload).map((name) => {
  const known = WORKLOADS.find((each) => each === name);
  if (known === undefined) throw new Error(`--workload is ${name}: it must be one of ${WORKLOADS.join(', ')}`);
  return known satisfies WorkloadName;
});

if (values.list) {
  for (const { name, needs = [] } of nemeses) {
    const why = needs.map(missing).find((each) => each !== null);
    console.log(why === undefined ? name : `${name}  [not on this machine: ${why}]`);
  }
  process.exit(0);
}

const report = new Report(seed, only.length > 0);
for (const { name, needs = [] } of nemesesNamed(only)) {
  const why = needs.map(missing).find((each) => each !== null);
  if (typeof why === 'string') report.notRun(name, why);
}
const { path: bin } = find('postgres', thisMachine);
if (bin === null) throw new Error('no PostgreSQL');
const postgres = await startPostgres({ bin, args: ['-c', 'max_connections=500'] });
const queue = await startRedis();
const services = { postgresUrl: postgres.url, queueUrl: queue.url };
const untilMs = forMs === null ? null : Date.now() + forMs;
/** At least one is played. */
const isOver = (): boolean => untilMs !== null && Date.now() >= untilMs && round > 0;

let round = 0;
let plans: readonly Plan[] = [];
let at = 0;

/** The next one; of another round while there is time. */
function next(): Plan | null {
  if (isOver()) return null;
  if (at === plans.length) {
    if (round > 0 && untilMs === null) return null;
    plans = roundOf(
      { seed: seed + round++, workloads, only, pairs: values.pairs, strikeMs },
      (need) => missing(need) === null,
    );
    at = 0;
  }
  return plans[at++] ?? null;
}

await Promise.all(
  Array.from({ length: parallel }, async () => {
    for (let plan = next(); plan !== null; plan = next()) {
      try {
        tell(await Promise.race([playEpisode(plan, services), tooLong()]));
      } catch (error) {
        report.failed(plan, error);
        console.log(`NOT PLAYED  ${titleOf(plan)}: ${error instanceof Error ? (error.stack ?? '') : String(error)}`);
      }
    }
  }),
);
console.log(`\n${report.text()}`);
if (values.report !== undefined) writeFileSync(values.report, `${JSON.stringify(report.json(), null, 2)}\n`);
const code = report.isGood ? 0 : 1;
await queue.stop();
await cleanUp();
process.exit(code);

/** Ten minutes: whatever an episode waits for then does not come, and the others go on. */
async function tooLong(): Promise<never> {
  await sleep(600_000, undefined, { ref: false });
  throw new Error('it did not end');
}

function tell(episode: Episode): void {
  report.add(episode);
  const { plan, faults, counts, breaches, chaosMs } = episode;
  const word = breaches.length === 0 ? 'held' : 'BREACH';
  const effects = `${faults.filter(({ effect }) => effect > 0).length} faults, ${counts.acquisitions} leases, ${counts.acceptedWrites} writes, ${counts.refusedWrites} refused`;
  console.log(`${word.padEnd(6)}  ${titleOf(plan)}: ${effects}, ${(chaosMs / 1000).toFixed(1)} s`);
  if (breaches.length === 0) return;
  const file = join(tmpdir(), `leasehold-chaos-${plan.seed}.json`);
  writeFileSync(
    file,
    JSON.stringify({ plan: { ...plan, nemeses: plan.nemeses.map(({ name }) => name) }, ...episode.history }),
  );
  for (const [rule, all] of byRule(breaches)) {
    console.log(all[0]);
    if (all.length > 1) console.log(`  and ${all.length - 1} more of ${rule}`);
  }
  console.log(`its history: ${file}`);
}

/** By the number of the rule; what is no rule's stands for itself. */
function byRule(breaches: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const breach of breaches) {
    const rule = /^[SLV]\d+/.exec(breach)?.[0] ?? breach;
    groups.set(rule, [...(groups.get(rule) ?? []), breach]);
  }
  return groups;
}
