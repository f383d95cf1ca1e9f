export { systemClock, type Clock, type Timer } from './clock.ts';
export { parseDuration, type Duration } from './duration.ts';
export * from './errors.ts';
export { ManagerEmitter, type LeaseEvent, type ManagerEvents, type StoreOperation } from './events.ts';
export {
  admits,
  grantForWrite,
  grantOf,
  MAX_TOKEN_AHEAD_US,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from './fence/fence.ts';
export { MemoryFence, type MemoryFenceOptions, type MemoryTx } from './fence/memory.ts';
export type { Unsettled } from './lease/closer.ts';
export { currentLease } from './lease/current.ts';
export type { HeldLease } from './lease/held.ts';
export type { HistoryEntry, LeaseInfo, TickInfo } from './lease/info.ts';
export type { Lease } from './lease/lease.ts';
export {
  LeaseManager,
  type CloseResult,
  type RevokeResult,
  type RunBody,
  type TryAcquireResult,
  type TryRunResult,
} from './lease/manager.ts';
export type { Refusal } from './lease/refusal.ts';
export type { Ticket } from './lease/ticket.ts';
export type { TimingAdvice } from './lease/timing-advice.ts';
export type { ReleaseResult } from './lease/tenure.ts';
export type { Logger } from './log.ts';
export { checkJobName, checkPrefix, checkResourceName, qualify } from './names.ts';
export {
  checkLeaseTiming,
  parseOptions,
  type AcquireOptions,
  type AdoptOptions,
  type CloseOptions,
  type LeaseManagerOptions,
  type LeaseTimingOptions,
  type RevokeOptions,
} from './options.ts';
export type { OwnerIdentity, OwnerOption, OwnerVitals } from './owner.ts';
export { MemoryLeaseStore, type MemoryLeaseStoreOptions } from './store/memory.ts';
export * from './store/store.ts';
export * from './store/tick-request.ts';
export type { TickOptions } from './tick-options.ts';
