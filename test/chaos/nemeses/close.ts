import type { Nemesis } from '../nemesis.ts';

/** An owner is told to end in good order, by SIGTERM, and comes back. */
export const close: Nemesis = {
  name: 'close',
  async strike(stage) {
    const seat = (await stage.owner())?.seat ?? stage.anySeat();
    if (seat === null || !seat.isAlive) return null;
    const { child, life } = seat;
    try {
      child.kill('SIGTERM');
      await child.next('closed', { timeoutMs: 60_000 });
    } catch {
      return null; // it was killed meanwhile
    }
    const { code } = await child.exit;
    return {
      targets: [life],
      forMs: stage.ttlMs * stage.random(),
      async heal() {
        await seat.startAgain();
        return code === 0 ? 1 : 0;
      },
    };
  },
};
