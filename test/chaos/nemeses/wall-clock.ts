import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import type { Nemesis } from '../nemesis.ts';
import { seatWith } from './claims.ts';

const STEP_MS = 60_000;

/** The wall clock of an owner is stepped by a minute, ahead or back, and later set right again. */
export const wallClock: Nemesis = {
  name: 'wall-clock',
  needs: ['owner-clock'],
  async strike(stage) {
    const found = await seatWith(stage, ({ clock }) => clock);
    if (found === null) return null;
    const { seat, part: clock, claimed } = found;
    const byMs = stage.random() < 0.5 ? STEP_MS : -STEP_MS;
    const hasIt = goesBy(seat.child.pid);
    clock.step(byMs);
    // What another process reads that has the same clock.
    const reads = Number(execFileSync('date', ['+%s'], { env: { ...process.env, ...clock.env }, encoding: 'utf8' }));
    const stepMs = Math.abs(reads * 1000 - Date.now());
    return {
      targets: [seat.life],
      forMs: stage.ttlMs * (0.5 + stage.random()),
      async heal() {
        clock.step(0);
        claimed[Symbol.dispose]();
        return hasIt && stepMs > STEP_MS / 2 ? stepMs : 0;
      },
    };
  },
};

/** Whether this process runs with a clock that can be moved. */
function goesBy(pid: number): boolean {
  try {
    return process.platform !== 'linux' || readFileSync(`/proc/${pid}/maps`, 'utf8').includes('faketime');
  } catch {
    return true; // it has ended, and will begin again with it
  }
}
