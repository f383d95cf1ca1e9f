// Three copies of one app share a queue and a cron task; one is killed, one is stopped and comes back.
import { randomBytes } from 'node:crypto';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import colors from 'picocolors';

import { audit } from './audit.ts';
import { openLedger } from './ledger.ts';
import type { Payment } from './messages.ts';
import { Story } from './story.ts';
import { Timeline } from './timeline.ts';
import { closingTable } from './verdict.ts';

const HELP = `Usage: npm run demo [-- --unfenced] [-- --verbose]

Three processes share a BullMQ queue of payments and a cron task. A payment reads the balance of an account, thinks, and
writes the new balance, under a lease of that account. One process is killed in mid-job. Another one is stopped between
its last look at its lease and its write, and wakes up when others have long taken over.

  --unfenced   the same story, with a plain SET instead of the fenced write: an update is lost
  --verbose    also what BullMQ complained about on the way
  --help

Exit code: 0 if everything happened as promised, which with --unfenced includes the lost update; otherwise 1.
The Redis is a private one of this run, or that of LEASEHOLD_REDIS_URL if examples/demo/main.ts is run directly; there all
keys of the demo have leasehold-demo in their names, and are removed at the end of a run that is not interrupted.`;

interface Options {
  readonly unfenced: boolean;
  readonly verbose: boolean;
  readonly help: boolean;
}

function optionsOf(args: string[]): Options {
  const flag = { type: 'boolean', default: false } as const;
  try {
    return parseArgs({ args, options: { unfenced: flag, verbose: flag, help: flag } }).values;
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    process.exit(2);
  }
}

/** Whether everything happened as promised. */
async function demo(url: string, { unfenced, verbose }: Options): Promise<boolean> {
  const fenced = !unfenced;
  const prefix = `leasehold-demo-${randomBytes(4).toString('hex')}`;
  const redis = await connect(url);
  const [second, micros] = await redis.time();
  const timeline = new Timeline(Number(second) * 1_000_000 + Number(micros));
  const queue = new Queue<Payment>('payments', { connection: { url }, prefix });
  queue.on('error', () => {});
  const ledger = openLedger({ url, prefix, fenced });

  console.log(`\n${colors.bold(`Leasehold demo, ${fenced ? 'with a fence' : 'without a fence'}`)}\n`);
  timeline.head();
  const story = new Story(timeline, queue, { url, prefix, fenced });
  redis.once('end', () => story.fail('Redis has gone away'));
  let isAsPromised = false;
  try {
    await story.play();
    const found = await audit(ledger, story.facts.payments);
    isAsPromised = closingTable(story.facts, found, fenced);
  } catch (error) {
    timeline.add((error as Error).message, { tone: 'bad' });
  }
  story.close();
  console.log(`\n${lesson(fenced, isAsPromised)}\n`);
  if (verbose) for (const trouble of story.troubles) console.log(colors.dim(trouble));

  await removeKeys(redis, prefix).catch(() => {});
  // Nothing of the queue is needed any more, nor waited for.
  await Promise.allSettled([queue.disconnect(), ledger.close()]);
  redis.disconnect();
  return isAsPromised;
}

function lesson(fenced: boolean, isAsPromised: boolean): string {
  if (!isAsPromised) return colors.red('NOT AS PROMISED. A run with --verbose says more.');
  if (fenced) {
    return `${colors.green('As promised: nothing was lost and nothing was done twice.')}
The stopped owner could not know that its time was over; the fence knew. Its token was lower than its successor's.
Now see the same without the fence: npm run demo -- --unfenced`;
  }
  return `${colors.red('As promised, an update was lost.')}
The owner had looked at its lease just before: lease.isHeld() was true. The pause came after that, and a plain SET asks
nobody: it put back a balance from before its successor's work. No check in front of a write can prevent that; a check in
the same step as the write can. That is the fence: npm run demo`;
}

async function connect(url: string): Promise<Redis> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => {});
  try {
    await redis.connect();
  } catch (error) {
    console.error(`There is no Redis to use: ${(error as Error).message}\nnpm run demo starts one of its own.`);
    process.exit(1);
  }
  return redis;
}

async function removeKeys(redis: Redis, prefix: string): Promise<void> {
  for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
}

const options = optionsOf(process.argv.slice(2));
if (options.help) {
  console.log(HELP);
} else {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      // The processes end with this one.
      console.log('\nInterrupted.');
      process.exit(128 + constants.signals[signal]);
    });
  }
  const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://127.0.0.1:6379';
  process.exitCode = (await demo(url, options)) ? 0 : 1;
}
