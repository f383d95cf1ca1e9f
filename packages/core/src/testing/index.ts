export { FaultyStore, type Delay, type Fault, type Operation, type Stage } from './faulty-store.ts';
export { describeFence, fenceCases, runFenceCase } from './fence-suite.ts';
export type { FenceCase, FenceContext, FenceHook, FenceHooks, FenceSubject } from './fence/context.ts';
export * from './history/index.ts';
export { ManualClock } from './manual-clock.ts';
export { describeLeaseStore, runStoreCase, storeCases } from './store-suite.ts';
export type { StoreCase, StoreContext, StoreHook, StoreHooks, StoreSubject } from './store/context.ts';
