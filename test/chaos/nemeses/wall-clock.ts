import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import type { Nemesis, Strike } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { seatWith } from './claims.ts';

/** The wall clock of an owner is stepped by a minute, ahead or back, and later set right again. */
export const wallClock: Nemesis = {
  name: 'wall-clock',
  needs: ['owner-clock'],
  // node-cron waits by its timer for the next tick as the clock showed it: for a minute this process would ask for nothing.
  workloads: ['core', 'bullmq'],
  strike: (stage) => stepped(stage, 60_000),
};

/** The same by less than a tick of a minute. */
export const smallWallClock: Nemesis = {
  name: 'wall-clock-small',
  needs: ['owner-clock'],
  strike: (stage) => stepped(stage, 4000),
};

async function stepped(stage: Stage, stepMs: number): Promise<Strike | null> {
  const found = await seatWith(stage, ({ clock }) => clock);
  if (found === null) return null;
  const { seat, part: clock, claimed } = found;
  const byMs = stage.random() < 0.5 ? stepMs : -stepMs;
  const hasIt = goesBy(seat.child.pid);
  clock.step(byMs);
  // What another process reads that has the same clock.
  const reads = Number(execFileSync('date', ['+%s'], { env: { ...process.env, ...clock.env }, encoding: 'utf8' }));
  const isMs = Math.abs(reads * 1000 - Date.now());
  return {
    targets: [seat.life],
    forMs: stage.ttlMs * (0.5 + stage.random()),
    async heal() {
      clock.step(0);
      claimed[Symbol.dispose]();
      return hasIt && isMs > stepMs / 2 ? isMs : 0;
    },
  };
}

/** Whether this process runs with a clock that can be moved. */
function goesBy(pid: number): boolean {
  try {
    return process.platform !== 'linux' || readFileSync(`/proc/${pid}/maps`, 'utf8').includes('faketime');
  } catch {
    return true; // it has ended, and will begin again with it
  }
}
