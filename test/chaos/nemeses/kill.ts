import type { Nemesis } from '../nemesis.ts';

/** kill -9 of an owner, at any instant. */
export const kill: Nemesis = {
  name: 'kill',
  kinds: ['kill'],
  async strike(stage) {
    const seat = (await stage.owner())?.seat ?? stage.anySeat();
    if (seat === null || !seat.isAlive) return null;
    const { life } = seat;
    await seat.kill();
    return {
      targets: [life],
      forMs: stage.ttlMs * stage.random(),
      async heal() {
        await seat.startAgain();
        return 1;
      },
    };
  },
};
