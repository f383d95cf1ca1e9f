import { qualify } from '@leasehold/core';
import { diagnose as diagnoseLease } from '@leasehold/core/diagnosis';

import type { Nemesis } from '../nemesis.ts';
import type { Stage } from '../stage.ts';

/** Somebody looks all the time what is the matter with each lease: it may change nothing, and give up no lease that lives. */
export const diagnose: Nemesis = {
  name: 'diagnose',
  // In the history they are the same process, which must send nothing that changes anything while it looks.
  notWith: ['revoke', 'force-release', 'force-unsealed', 'unsafe-force'],
  async strike(stage) {
    const over = new AbortController();
    let looked = 0;
    const look = async (): Promise<void> => {
      while (!over.signal.aborted) {
        for (const resource of stage.resources) looked += (await verdictOf(stage, resource)) === null ? 0 : 1;
      }
    };
    const looking = look();
    return {
      forMs: stage.ttlMs * (1 + stage.random()),
      async heal() {
        over.abort();
        await looking;
        return looked;
      },
    };
  },
};

async function verdictOf({ manager, fence, recorder }: Stage, resource: string): Promise<string | null> {
  const recording = recorder.begin('diagnose', { resource: qualify(manager.namespace, resource) });
  try {
    const { verdict, lease } = await diagnoseLease(manager, resource, { fences: [fence] });
    recording.end('ok', { outcome: verdict.code, leaseId: lease?.leaseId });
    return verdict.code;
  } catch {
    recording.end('fail');
    return null;
  }
}
