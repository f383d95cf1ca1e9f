import type { Nemesis } from '../nemesis.ts';
import { tried } from './admin.ts';

/** Somebody revokes a lease under which an owner works. */
export const revoke: Nemesis = {
  name: 'revoke',
  async strike(stage) {
    const owner = await stage.owner();
    if (owner === null) return null;
    const result = await tried(() => stage.manager.revoke(owner.resource, { reason: 'chaos' }));
    if (result?.outcome !== 'revoked') return null;
    return { targets: [owner.seat.life], forMs: 0, heal: async () => 1 };
  },
};
