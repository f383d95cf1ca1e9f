import { Settler } from '../../src/lease/settler.ts';
import { Tenure } from '../../src/lease/tenure.ts';
import { onAbort } from '../../src/abort-listeners.ts';
import type { SeededBug } from './bug.ts';
import { replacing } from './replacing.ts';

/** What an owner could do wrong with the lease that it has, or that it does not have. */
export const ownerBugs: readonly SeededBug[] = [
  {
    does: 'an owner that does not tell its run that it is to end',
    foundBy: 'S17',
    engine: replacing(Tenure.prototype, 'cancel', () => {}),
  },
  {
    does: 'an owner that knows no end of its hold',
    foundBy: 'S18',
    engine: replacing(Tenure.prototype, 'endsMs', Infinity),
  },
  {
    does: 'an owner with hardly any margin',
    mutation: 'no margin',
    foundBy: 'S19',
    // The least that can be asked for.
    manager: { safetyMargin: 10 },
  },
  {
    does: 'an owner that ignores that clocks drift',
    mutation: 'no drift',
    foundBy: 'S19',
    manager: { driftRate: 0 },
  },
  {
    does: 'a run that does not wait for a body that was told to end',
    mutation: 'body left',
    foundBy: 'S21',
    body: (settled, { signal }) =>
      Promise.race([settled, new Promise<void>((resolve) => void onAbort(signal, () => resolve()))]),
  },
  {
    does: 'an owner that takes nothing back',
    mutation: 'no settler',
    foundBy: 'L9',
    engine: replacing(Settler.prototype, 'add', () => Promise.resolve(false)),
  },
  {
    does: 'an owner that takes back once, and not again',
    foundBy: 'L9',
    engine: replacing(Settler.prototype, 'add', async (send) =>
      send(false).then(
        () => true,
        () => false,
      ),
    ),
  },
  {
    does: 'a body that writes with another token than its own',
    foundBy: 'S25',
    holder: ({ grant }) => Promise.resolve({ ...grant, fencingToken: grant.fencingToken + 1 }),
  },
];
