import type { Nemesis, Strike } from '../nemesis.ts';
import type { Seat, Stage } from '../stage.ts';
import { stateOf } from '../../support/signals.ts';
import { claim, seatWith } from './claims.ts';
import { inSection } from './kill.ts';

/** SIGSTOP of an owner for longer than its lease. */
export const pause: Nemesis = {
  name: 'pause',
  kinds: ['pause'],
  strike: async (stage) => stopAny(stage, stage.ttlMs * (1.2 + stage.random())),
};

/** SIGSTOP of an owner, and it wakes up in time. */
export const shortPause: Nemesis = {
  name: 'pause-short',
  kinds: ['pause'],
  strike: async (stage) => stopAny(stage, stage.ttlMs * (0.1 + 0.5 * stage.random())),
};

/** SIGSTOP of an owner whose transaction is open: it holds the guard's row, and whoever comes next waits for that. */
export const pauseInSection: Nemesis = {
  name: 'pause-in-section',
  kinds: ['pause'],
  async strike(stage) {
    // It must still be in it when it is stopped, and may be when it wakes up.
    const seat = await inSection(stage, stage.ttlMs);
    const claimed = seat === null ? null : claim(seat);
    return seat === null || claimed === null
      ? null
      : stopped(stage, seat, claimed, stage.ttlMs * (1.2 + 2 * stage.random()));
  },
};

async function stopAny(stage: Stage, forMs: number): Promise<Strike | null> {
  const found = await seatWith(stage, (seat) => seat);
  return found === null ? null : stopped(stage, found.seat, found.claimed, forMs);
}

async function stopped(stage: Stage, seat: Seat, claimed: Disposable, forMs: number): Promise<Strike | null> {
  const { life, child } = seat;
  try {
    await child.stop(); // until the system says T
  } catch {
    claimed[Symbol.dispose]();
    return null; // killed meanwhile
  }
  const fromMs = stage.recorder.now();
  return {
    targets: [life],
    forMs,
    fromMs,
    async heal() {
      claimed[Symbol.dispose]();
      const untilMs = stage.recorder.now();
      const isThere = seat.life === life && seat.isAlive;
      // Whoever was killed as it stood was stopped until then.
      const stood = !isThere || /^[Tt]/.test(stateOf(child.pid));
      if (isThere) child.cont();
      return { effect: stood ? untilMs - fromMs : 0, untilMs };
    },
  };
}
