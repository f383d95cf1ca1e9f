import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';

/** The event loop of an owner computes for longer than its lease runs: no timer, no answer. */
export const block: Nemesis = {
  name: 'block',
  kinds: ['pause'],
  async strike(stage) {
    const found = await seatWith(stage, (seat) => seat);
    if (found === null) return null;
    const { seat, claimed } = found;
    const { child, life } = seat;
    let forMs: number;
    try {
      child.send('block', { ms: Math.round(stage.ttlMs * (1.2 + stage.random())) });
      ({ ms: forMs } = await child.next<{ ms: number }>('blocked'));
    } catch {
      return null; // killed meanwhile
    } finally {
      claimed[Symbol.dispose]();
    }
    // It is over when it says so: nobody can say when the loop stands still.
    const untilMs = stage.recorder.now();
    return { targets: [life], forMs: 0, fromMs: untilMs - forMs, heal: async () => ({ effect: forMs, untilMs }) };
  },
};
