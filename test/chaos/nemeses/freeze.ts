import { FreezableGroup, freezers } from '../../support/freezer.ts';
import { LastWill } from '../equipment/last-will.ts';
import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';

/** An owner stands still in a frozen cgroup, as `docker pause` does it: no signal, and the system shows it as sleeping. */
export const freeze: Nemesis = {
  name: 'freeze',
  kinds: ['pause'],
  needs: ['freezer'],
  async strike(stage) {
    const [hierarchy] = freezers();
    const found = await seatWith(stage, (seat) => seat);
    if (found === null || hierarchy === undefined) return null;
    const { seat, claimed } = found;
    const { life, child } = seat;
    const home = new FreezableGroup(hierarchy);
    const [file, thawed] = hierarchy.version === 2 ? ['cgroup.freeze', '0'] : ['freezer.state', 'THAWED'];
    const will = new LastWill(`
      echo ${thawed} > ${home.path}/${file}
      while read -r pid; do kill -9 "$pid"; done < ${home.path}/cgroup.procs
      until rmdir ${home.path}; do sleep 0.1; done`);
    try {
      home.add(child.pid);
      await home.freeze();
    } catch {
      claimed[Symbol.dispose]();
      await home[Symbol.asyncDispose]();
      will[Symbol.dispose]();
      return null; // killed meanwhile
    }
    const fromMs = stage.recorder.now();
    return {
      targets: [life],
      forMs: stage.ttlMs * (1.2 + stage.random()),
      fromMs,
      async heal() {
        claimed[Symbol.dispose]();
        const untilMs = stage.recorder.now();
        const stood = home.isFrozen;
        await home.letGo();
        will[Symbol.dispose]();
        return { effect: stood ? untilMs - fromMs : 0, untilMs };
      },
    };
  },
};
