export { clockStepped } from './clock-stepped.ts';
export { cutOff, cutOffWithTimeout } from './cut-off.ts';
export { keysDeleted } from './keys-deleted.ts';
export { killed } from './killed.ts';
export type { Proof } from './proof.ts';
export { stopped } from './stopped.ts';
export { succeeded } from './succeeded.ts';
