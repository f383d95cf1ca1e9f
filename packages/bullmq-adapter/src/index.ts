export type { LeaseEvents } from './events.ts';
export { leased } from './leased.ts';
export { LeasedWorker } from './leased-worker.ts';
export type {
  LeasedJob,
  LeasedOptions,
  LeasedProcessor,
  LeasedWorkerOptions,
  LeaseOptions,
  ResourceOption,
  SkippedResult,
  WhenBusy,
  WhenLost,
} from './options.ts';
export type { SandboxedLease, SandboxedLeasedJob, SandboxedReason } from './sandbox.ts';
export { withLease, type LeasedWorkerClass, type WithLeaseOptions, type WorkerClass } from './with-lease.ts';
