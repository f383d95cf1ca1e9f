import type { Place } from './points.ts';

export const FAULT_KINDS = [
  'pause',
  'sleep',
  'freeze',
  'kill',
  'wall-step',
  'partition',
  'fence-partition',
  'reset',
  'noise',
  'slow',
  'fence-noise',
  'store-stall',
  'store-clock',
  'data-loss',
  'restart',
  'revoke',
  'force',
  'unsafe-force',
  'diagnose',
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

export interface FaultPlan {
  readonly id: string;
  readonly kind: FaultKind;
  readonly atMs: number;
  readonly forMs: number;
  /** A process, where one is struck. */
  readonly target: string;
  readonly resource: string;
  /** Of a pause: at which place after `atMs`. Otherwise a choice among the ways of the fault. */
  readonly choice: number;
  /** Where a pause or a kill waits for its target, if it does; `choice` counts how often it lets it pass. */
  readonly place?: Place | 'in a release' | undefined;
}
