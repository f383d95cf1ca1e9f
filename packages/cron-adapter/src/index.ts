export type { CronRun, CronTask, CronTrigger } from './cron-run.ts';
export type { CronEvent, CronEvents, CronRunEvent, SkipReason } from './events.ts';
export { leasedCron, type LeasedCron, type LeasedCronOptions } from './leased-cron.ts';
export type { ManagerSource } from './manager.ts';
export type { CronLeaseOptions, JobOptions, ScheduleOptions } from './options.ts';
