import { admits } from '../../src/fence/fence.ts';

/** What is under examination: how the fence decides, and what agents and fence do around it. */
export interface FenceRules {
  readonly admits: typeof admits;
  /** What a grant is told apart by, beside its token. */
  readonly identity: (agent: number, run: number) => string;
  /** Whether a grant is activated before it reads. */
  readonly activates: boolean;
  /** Whether check and write are one step. */
  readonly isAtomic: boolean;
}

const byLeaseId = (agent: number, run: number): string => `${agent}.${run}`;

export const fenceRules: FenceRules = { admits, identity: byLeaseId, activates: true, isAtomic: true };
