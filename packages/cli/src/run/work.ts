import type { Fence } from '@leasehold/core';

import type { AnyJobHandler } from './context.ts';

/** What a job does, whatever triggers it. */
export interface Work {
  /** The job's name in the config. */
  readonly name: string;
  readonly handler: AnyJobHandler;
  /** Activated before each run. */
  readonly fences: readonly Fence[];
  /** What the handler is given: the same by name, and an explanation for each other fence of the config. */
  readonly fencesByName: object;
  /** How long the handler may ignore its signal before it counts as abandoned. Milliseconds. */
  readonly patienceMs: number;
}
