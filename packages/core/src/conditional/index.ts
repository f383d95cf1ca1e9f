export type { ConditionalCell } from './cell.ts';
export { conditionalFence, type ConditionalFence, type ConditionalOptions } from './fence.ts';
export { objectFence, type ObjectFenceOptions, type ObjectFetch } from './object.ts';
export type { Versioned } from './place.ts';
export type { ConditionalTx } from './tx.ts';
