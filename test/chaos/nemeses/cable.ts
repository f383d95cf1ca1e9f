import { readFileSync } from 'node:fs';

import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';

/** The cable of an owner's network is drawn for longer than its lease, and put back: neither side hears of it. */
export const cable: Nemesis = {
  name: 'cable',
  needs: ['networks'],
  // The queue of BullMQ is not on the island.
  workloads: ['core', 'cron'],
  async strike(stage) {
    const found = await seatWith(stage, ({ link }) => link);
    if (found === null) return null;
    const { seat, part: link, claimed } = found;
    const { life, child } = seat;
    const before = unheard(child.pid);
    try {
      link.cut();
    } catch {
      claimed[Symbol.dispose]();
      return null; // killed meanwhile
    }
    return {
      targets: [life],
      forMs: stage.ttlMs * (1.3 + stage.random()),
      async heal() {
        const after = unheard(child.pid);
        link.mend();
        claimed[Symbol.dispose]();
        // Killed meanwhile, its counter went with it, and its cable.
        return before === null || after === null ? 1 : after - before;
      },
    };
  },
};

/** How many packets the cable of this process has dropped, and how often its system waited in vain for one to be confirmed. */
function unheard(pid: number): number | null {
  try {
    const [names = '', values = ''] = readFileSync(`/proc/${pid}/net/netstat`, 'utf8').match(/^TcpExt: .*$/gm) ?? [];
    const inVain = Number(values.split(' ')[names.split(' ').indexOf('TCPTimeouts')]);
    // After the name: eight figures of what came, then bytes, packets, errors and drops of what went.
    const near = /near:\s*(.*)/.exec(readFileSync(`/proc/${pid}/net/dev`, 'utf8'))?.[1]?.split(/\s+/) ?? [];
    return inVain + Number(near[11] ?? 0);
  } catch {
    return null;
  }
}
