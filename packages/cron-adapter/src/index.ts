export { leaseCoordinator, type LeaseCoordinator, type LeaseCoordinatorOptions } from './coordinator.ts';
export type { CronRun, CronTask, CronTrigger } from './cron-run.ts';
export { Leased, LeasedCron, type LeasedCronDecorator, type LeasedDecorator } from './decorators.ts';
export type { CronEvent, CronEvents, CronRunEvent, SkipReason } from './events.ts';
export { leasedCron, type LeasedNodeCron, type LeasedCronOptions } from './leased-cron.ts';
export { leasedTask, type LeasedTask } from './leased-task.ts';
export type { ManagerSource } from './manager.ts';
export type { LeasedOptions } from './marks.ts';
export type { CronLeaseOptions, JobOptions, LeasedTaskOptions, ScheduleOptions } from './options.ts';
