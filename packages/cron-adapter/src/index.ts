export type { CronRun, CronTask } from './cron-run.ts';
export { leasedCron, type LeasedCron, type LeasedCronOptions } from './leased-cron.ts';
export type { CronLeaseOptions, LeasedTaskOptions } from './options.ts';
