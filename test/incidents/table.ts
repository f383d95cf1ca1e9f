import { killedOwner, lostHost } from './ended.ts';
import { foreignLock } from './foreign.ts';
import type { Incident } from './incident.ts';
import { deafRun, longRun } from './living.ts';
import { stoppedFenced, stoppedUnfenced } from './stopped.ts';
import { emptyRestart, evicting, twoMasters } from './store-troubles.ts';

/** By number. What is right to do about each stands with it; whoever is to be tried must not read it. */
export const incidents: ReadonlyMap<number, Incident> = new Map([
  [1, longRun],
  [2, killedOwner],
  [3, stoppedFenced],
  [4, stoppedUnfenced],
  [5, lostHost],
  [6, foreignLock],
  [7, emptyRestart],
  [8, evicting],
  [9, twoMasters],
  [10, deafRun],
]);
