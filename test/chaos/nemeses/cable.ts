import { readFileSync } from 'node:fs';

import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';

/** The cable of an owner's network is drawn for longer than its lease, and put back: neither side hears of it. */
export const cable: Nemesis = {
  name: 'cable',
  needs: ['networks'],
  async strike(stage) {
    const found = await seatWith(stage, ({ link }) => link);
    if (found === null) return null;
    const { seat, part: link, claimed } = found;
    const { life, child } = seat;
    const before = sentAgain(child.pid);
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
        const after = sentAgain(child.pid);
        link.mend();
        claimed[Symbol.dispose]();
        // Killed meanwhile, its counter went with it, and its cable.
        return before === null || after === null ? 1 : after - before;
      },
    };
  },
};

/** How many packets the network of this process has sent again because nobody confirmed them. */
function sentAgain(pid: number): number | null {
  try {
    const [names = '', values = ''] = readFileSync(`/proc/${pid}/net/snmp`, 'utf8').match(/^Tcp: .*$/gm) ?? [];
    return Number(values.split(' ')[names.split(' ').indexOf('RetransSegs')]);
  } catch {
    return null;
  }
}
