// A process with the jobs of a schedule: each second one tick of each job, for which all processes ask.
import { leasedCron, type CronRun } from '@leasehold/cron';
import { qualify } from '@leasehold/core';
import type { Recording } from '@leasehold/core/testing/history';

import { say } from '../../support/child-side.ts';
import { Owner } from './owner.ts';

const owner = new Owner();
const { recorder } = owner;
const { resources, prefix } = owner.setup;
const cron = leasedCron({ manager: owner.manager });
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A schedule wants its resource all the time. */
const wants = new Map<string, Recording>();
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
      wantAgain(name);
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
}

await say('ready');
await owner.told();
await cron.shutdown(3000);
await owner.close();
