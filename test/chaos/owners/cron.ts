// A process with the jobs of a schedule: each second one tick of each job, for which all processes ask.
import { setTimeout as sleep } from 'node:timers/promises';
import { leasedCron, type CronRun } from '@leasehold/cron';
import { qualify } from '@leasehold/core';
import type { Recording } from '@leasehold/core/testing/history';

import type { ScheduledTask } from 'node-cron';

import { say } from '../../support/child-side.ts';
import { Owner } from './owner.ts';

const owner = new Owner();
const { recorder } = owner;
const { resources, prefix } = owner.setup;
const cron = leasedCron({ manager: owner.manager });
let isClosing = false;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A schedule wants its resource all the time. */
const wants = new Map<string, Recording>();
const stopped = new Set<string>();
function wantAgain(job: string): void {
  wants.set(job, recorder.begin('want', { resource: qualify(prefix, job) }));
}

for (const [index, name] of resources.entries()) {
  const retries = index === 0 ? 0 : 1;
  wantAgain(name);
  const body = async (run: CronRun): Promise<void> => {
    const { lease, tick } = run;
    const { leaseId, fencingToken, grant } = lease;
    wants.get(name)?.end('ok', { leaseId, fencingToken });
    recorder.line('run', 'ok', { ...grant, job: name, tickAt: tick?.getTime(), retries });
    try {
      await owner.work(lease, owner.manner());
    } finally {
      if (!stopped.has(name)) wantAgain(name);
    }
  };
  const task = cron.createTask('* * * * * *', body, {
    name,
    retry: retries,
    // Some ticks that nobody could run are run late.
    catchUp: index === 0 ? 'none' : 'latest',
    suppressMissedWarning: true,
    logger: quiet,
    lease: { fences: [owner.fence] },
  });
  // What a run fails with is in the history.
  void task.start();
  void stopNowAndThen(name, task);
}

/** A job that is stopped wants nothing. */
async function stopNowAndThen(name: string, task: ScheduledTask): Promise<void> {
  for (;;) {
    await sleep(1000 + 4000 * owner.random(), undefined, { ref: false });
    if (owner.random() < 0.5) continue;
    await task.stop();
    stopped.add(name);
    wants.get(name)?.end('fail');
    await sleep(500 + 1000 * owner.random(), undefined, { ref: false });
    if (isClosing) return;
    stopped.delete(name);
    wantAgain(name);
    await task.start();
  }
}

await say('ready');
await owner.told();
isClosing = true;
await cron.shutdown(3000);
await owner.close();
