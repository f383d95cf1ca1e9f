// The command `npm run chaos`: episodes, one after the other or side by side, until the time is over or the round.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import { step } from '../../scripts/lib/steps.mjs';
import { cleanUp } from '../../scripts/services/guard.mjs';
import { ensure, NotToBeHad } from '../../scripts/services/obtain.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { ensurePrograms } from '../support/build-programs.ts';
import { startRedis } from '../support/redis-server.ts';
import { readArguments } from './arguments.ts';
import { playEpisode, type Episode } from './episode.ts';
import { nemeses } from './nemeses/index.ts';
import { missing } from './needs.ts';
import { againOf, argumentsFor, nemesesNamed, roundOf, titleOf, type Plan } from './plan.ts';
import { Report } from './report.ts';

const { seed, parallel, strikeMs, forMs, only, workloads, pairs, list, report: reportFile, episode } = readArguments();

if (list) {
  for (const { name, needs = [] } of nemeses) {
    const why = needs.map(missing).find((each) => each !== null);
    console.log(why === undefined ? name : `${name}  [not on this machine: ${why}]`);
  }
  if (missing('store-clock') !== null) console.log('(libfaketime is got by a run, if it can be had)');
  process.exit(0);
}

// Not before: whoever asks for a list, or says it wrongly, waits for nothing.
const bin = await obtained();
const report = new Report(episode?.seed ?? seed, only.length > 0);
for (const { name, needs = [] } of nemesesNamed(only)) {
  const why = needs.map(missing).find((each) => each !== null);
  if (typeof why === 'string') report.notRun(name, why);
}
// Killed owners come back at once.
await ensurePrograms();
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
    const wanted = { seed: seed + round++, workloads, only, pairs, strikeMs };
    plans = episode === undefined ? roundOf(wanted, (need) => missing(need) === null) : [againOf(wanted, episode)];
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
        console.log(againFor(plan));
      }
    }
  }),
);
console.log(`\n${report.text()}`);
if (reportFile !== undefined) writeFileSync(reportFile, `${JSON.stringify(report.json(), null, 2)}\n`);
const code = report.isGood ? 0 : 1;
await queue.stop();
await cleanUp();
process.exit(code);

/** The folder of PostgreSQL's programs. Ends the process with what a person can do if the machine lacks what is needed. */
async function obtained(): Promise<string> {
  try {
    const { postgres: folder } = await ensure(['redis', 'postgres', 'faketime'], { step, optional: ['faketime'] });
    if (folder !== undefined) return folder;
    throw new NotToBeHad('no PostgreSQL');
  } catch (error) {
    if (!(error instanceof NotToBeHad)) throw error;
    process.stderr.write(`\n${error.message}\n`);
    await cleanUp();
    process.exit(1);
  }
}

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
  if (breaches.length === 0) {
    console.log(`        ${againFor(plan)}`);
    return;
  }
  const file = join(tmpdir(), `leasehold-chaos-${plan.seed}.json`);
  writeFileSync(
    file,
    JSON.stringify({ plan: { ...plan, nemeses: plan.nemeses.map(({ name }) => name) }, ...episode.history }),
  );
  for (const [rule, all] of byRule(breaches)) {
    console.log(all[0]);
    if (all.length > 1) console.log(`  and ${all.length - 1} more of ${rule}`);
  }
  console.log(`its history: ${file}\n${againFor(plan)}`);
}

function againFor(plan: Plan): string {
  return `again: npm run chaos -- ${argumentsFor(plan)}`;
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
