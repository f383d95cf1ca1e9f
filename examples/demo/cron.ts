import type { LeaseManager } from '@leasehold/core';
import { leasedCron, type LeasedNodeCron } from '@leasehold/cron';

import type { Ledger } from './ledger.ts';
import type { Report } from './messages.ts';

export interface CronParts {
  readonly leases: LeaseManager;
  readonly ledger: Ledger;
  readonly say: (report: Report) => Promise<void>;
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A task that each of the processes schedules; each tick runs in one of them. */
export function startCron({ leases, ledger, say }: CronParts): LeasedNodeCron {
  const cron = leasedCron({ manager: leases });
  cron.schedule(
    '*/2 * * * * *',
    async ({ lease, tick, fencingToken }) => {
      const instant = tick?.toISOString() ?? 'by hand';
      await ledger.note(lease, instant);
      await say({ type: 'tick', tick: instant, token: fencingToken });
    },
    // A process that was stopped has missed ticks; node-cron would complain on the terminal.
    { name: 'report', lease: { fences: ledger.fences }, suppressMissedWarning: true, logger: quiet },
  );
  return cron;
}
