import type { Nemesis, Strike } from '../nemesis.ts';
import type { Seat, Stage } from '../stage.ts';

/** kill -9 of an owner, at any instant. */
export const kill: Nemesis = {
  name: 'kill',
  kinds: ['kill'],
  async strike(stage) {
    const seat = (await stage.owner())?.seat ?? stage.anySeat();
    if (seat === null || !seat.isAlive) return null;
    return killed(stage, [seat]);
  },
};

/** kill -9 of an owner that is in the midst of a guarded write: its transaction is open. */
export const killInSection: Nemesis = {
  name: 'kill-in-section',
  kinds: ['kill'],
  async strike(stage) {
    const seat = await inSection(stage, stage.ttlMs);
    return seat === null ? null : killed(stage, [seat]);
  },
};

/** kill -9 of all at once. */
export const killAll: Nemesis = {
  name: 'kill-all',
  kinds: ['kill'],
  async strike(stage) {
    const alive = stage.seats.filter(({ isAlive }) => isAlive);
    return alive.length === 0 ? null : killed(stage, alive);
  },
};

/** An owner that has said that it is inside its transaction, where it stays for so long. */
export async function inSection(stage: Stage, holdMs: number): Promise<Seat | null> {
  const owner = await stage.owner();
  if (owner === null || !owner.seat.isAlive) return null;
  const { seat } = owner;
  const { child, life } = seat;
  try {
    child.send('section', { holdMs });
    await child.next('section', { timeoutMs: 2 * stage.ttlMs });
  } catch {
    return null; // it has lost its lease, or its life
  }
  return seat.life === life && seat.isAlive ? seat : null;
}

async function killed(stage: Stage, seats: readonly Seat[]): Promise<Strike> {
  const victims = seats.map(({ life, child }) => ({ life, exit: child.exit }));
  await Promise.all(seats.map((seat) => seat.kill()));
  return {
    targets: victims.map(({ life }) => life),
    forMs: stage.ttlMs * 1.5 * stage.random(),
    async heal() {
      const exits = await Promise.all(victims.map(({ exit }) => exit));
      await Promise.all(seats.map((seat) => seat.startAgain()));
      return exits.filter(({ signal }) => signal === 'SIGKILL').length;
    },
  };
}
