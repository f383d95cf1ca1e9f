export type { ConditionalCell } from './cell.ts';
export { conditionalFence, type ConditionalFence, type ConditionalOptions } from './fence.ts';
export { fileFence, type FileFence, type FileFenceOptions } from './file/fence.ts';
export { fileName } from './file/name.ts';
export type { FileTx } from './file/tx.ts';
export { objectFence, type ObjectFenceOptions, type ObjectFetch } from './object.ts';
export type { Versioned } from './place.ts';
export type { ConditionalTx } from './tx.ts';
