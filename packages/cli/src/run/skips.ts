import type { CronEvents } from '@leasehold/cron';
import type { Logger } from 'pino';

import type { Metrics } from './metrics.ts';

/** What somebody should hear of; the rest is how a fleet works. */
const ODD: ReadonlySet<string> = new Set(['too-late', 'clock-ahead', 'no-slot']);
const USUAL: ReadonlySet<string> = new Set(['already-ran', 'superseded', 'stopped', 'newer-tick']);

/** A tick that began no run here. All processes but one hear `already-ran` for each tick. */
export function tellSkipped(log: Logger, metrics: Metrics, skipped: CronEvents['skipped'][0]): void {
  const { job, tick, reason, holder, aheadMs } = skipped;
  metrics.skipped(job, reason);
  const level = USUAL.has(reason) ? 'debug' : ODD.has(reason) ? 'warn' : 'info';
  log[level]({ job, tick, reason, holder: holder?.owner, aheadMs }, `tick is skipped: ${reason}`);
}
