// From the second that a schedule names to the first line of the task: plain node-cron against leasedCron, alone and in a
// fleet of three, on alternate seconds of the same process. And the commands that a tick costs the store.
import { leasedCron, type LeasedNodeCron } from '@leasehold/cron';
import { Redis } from 'ioredis';
import nodeCron, { type ScheduledTask } from 'node-cron';

import { startRedis } from '../support/redis-server.ts';
import { percentile } from './interleave.ts';

const SECONDS = Number(process.env['SECONDS'] ?? '90');
/** So many jobs each, for more samples; none waits for another. */
const JOBS = 5;

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const redis = new Redis(server.url);

interface Variant {
  readonly name: string;
  readonly lateMs: number[];
  readonly runs: number[];
  readonly stop: () => Promise<void>;
}

const nowMs = (): number => performance.timeOrigin + performance.now();

/** The seconds of a minute that are `index` modulo three. */
function secondsOf(index: number): string {
  return Array.from({ length: 20 }, (_, n) => 3 * n + index).join(',');
}

function variant(
  name: string,
  index: number,
  schedule: (expression: string, name: string, task: (context: { date: Date }) => void) => ScheduledTask[],
  stop: () => Promise<void>,
): Variant {
  const lateMs: number[] = [];
  const runs: number[] = [];
  const expression = `${secondsOf(index)} * * * * *`;
  const tasks = Array.from({ length: JOBS }, (_, job) =>
    schedule(expression, `${name.replaceAll(' ', '-')}-${job}`, ({ date }) => {
      lateMs.push(nowMs() - date.getTime());
      runs.push(date.getTime());
    }),
  ).flat();
  return {
    name,
    lateMs,
    runs,
    stop: async () => {
      for (const task of tasks) await task.destroy();
      await stop();
    },
  };
}

function leased(name: string, index: number, fleet: readonly LeasedNodeCron[]): Variant {
  return variant(
    name,
    index,
    (expression, job, task) => fleet.map((cron) => cron.schedule(expression, task, { name: job, timezone: 'UTC' })),
    async () => {
      await Promise.all(fleet.map((cron) => cron.shutdown()));
    },
  );
}

const connection = server.url;
const variants = [
  variant(
    'plain node-cron',
    0,
    (expression, job, task) => [nodeCron.schedule(expression, task, { name: job, timezone: 'UTC' })],
    async () => {},
  ),
  leased('leased alone', 1, [leasedCron({ connection, prefix: 'alone' })]),
  leased(
    'leased in a fleet of three',
    2,
    [1, 2, 3].map(() => leasedCron({ connection, prefix: 'fleet' })),
  ),
];

// The first ticks connect and load scripts.
await new Promise((resolve) => setTimeout(resolve, 6000));
for (const { lateMs, runs } of variants) {
  lateMs.length = 0;
  runs.length = 0;
}
await redis.config('RESETSTAT');
await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
const stats = await redis.info('commandstats');
const calls = (command: string): number =>
  Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? '0');
const [plain, alone, fleet] = variants as [Variant, Variant, Variant];
const ticks = alone.runs.length + fleet.runs.length;
const evalsha = calls('evalsha');
for (const { stop } of variants) await stop();
redis.disconnect();

const quantile = ({ lateMs }: Variant, part: number): number =>
  percentile(
    lateMs.toSorted((a, b) => a - b),
    part,
  );
console.log(`\nfrom the second that the schedule names to the first line of the task, ms (${JOBS} jobs, ${SECONDS} s)`);
const width = Math.max(...variants.map(({ name }) => name.length));
console.log(`${'variant'.padEnd(width)}   ticks    p50    p99   p50 over plain`);
for (const each of variants) {
  const cells = [quantile(each, 0.5), quantile(each, 0.99), quantile(each, 0.5) - quantile(plain, 0.5)];
  const shown = cells.map((cell) => cell.toFixed(2).padStart(7)).join('');
  console.log(`${each.name.padEnd(width)} ${String(each.lateMs.length).padStart(7)} ${shown}`);
}
// Who runs a tick acquires and releases; each of the others asks once.
console.log(
  `EVALSHA: ${evalsha} for ${ticks} ticks; expected ${alone.runs.length * 2 + fleet.runs.length * 4}: ` +
    `2 for each tick, and 1 for each other instance`,
);
