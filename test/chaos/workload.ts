import type { LiveStage } from './live-stage.ts';
import type { OwnerSetup } from './owners/setup.ts';
import type { Services } from './episode.ts';
import type { Plan } from './plan.ts';

/** What the processes of an episode are given to do. */
export interface Workload {
  readonly resources: readonly string[];
  readonly queue: OwnerSetup['queue'];
  begin(): Working;
}

export interface Working extends AsyncDisposable {
  /** In peace again: waits until all is done that was begun. With what went wrong. */
  settle(stage: LiveStage): Promise<readonly string[]>;
}

const NOTHING: Working = { settle: async () => [], [Symbol.asyncDispose]: async () => {} };

export function workloadOf({ workload, seed }: Plan, services: Services): Workload {
  switch (workload) {
    case 'core':
      return { resources: ['alpha', 'beta', 'gamma'].slice(0, 2 + (seed % 2)), queue: null, begin: () => NOTHING };
    case 'cron':
      return { resources: ['once', 'again'], queue: null, begin: () => NOTHING };
    case 'bullmq':
      throw new Error(`not yet: ${services.queueUrl}`);
  }
}
