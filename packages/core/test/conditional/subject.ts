import { conditionalFence, type ConditionalFence } from '../../src/conditional/fence.ts';
import type { ConditionalTx } from '../../src/conditional/tx.ts';
import { systemClock, type Clock } from '../../src/clock.ts';
import type { FenceHook, FenceSubject } from '../../src/testing/fence/context.ts';
import { Cells } from './cells.ts';

export type LogTx = ConditionalTx<readonly string[]>;

export function fenceOver(
  cells: Cells,
  timeout = 2000,
  clock: Clock = systemClock,
): ConditionalFence<readonly string[]> {
  return conditionalFence<readonly string[]>({
    atomic: true,
    read: (resource) => cells.read(resource),
    compareAndSet: (resource, version, cell) => cells.compareAndSet(resource, version, cell),
    timeout,
    clock,
  });
}

export function append(tx: LogTx, entry: string): void {
  tx.set([...(tx.value ?? []), entry]);
}

export const hooks: readonly FenceHook[] = ['second', 'count', 'loseAnswer', 'loseRequest', 'abandon'];

/** The log of each resource is the value of its cell. */
export function cellsSubject(cells: Cells = new Cells(), make: typeof fenceOver = fenceOver): FenceSubject<LogTx> {
  const fence = make(cells);
  return {
    fence,
    nowUs: () => systemClock.wallUs(),
    append: (tx, _resource, entry) => append(tx, entry),
    count: (tx) => tx.value?.length ?? 0,
    entries: async (resource) => cells.entries(resource),
    second: async () => make(cells),
    loseAnswer: async () => void cells.faults.push('lose-answer'),
    loseRequest: async () => void cells.faults.push('lose-request'),
    abandon: (grant, entry) =>
      new Promise((resolve, reject) => {
        // Its owner stands still with the request in its hand.
        cells.onRequest = () => {
          cells.onRequest = () => {};
          resolve();
          return new Promise(() => {});
        };
        make(cells)
          .write(grant, (tx) => append(tx, entry))
          .catch(reject);
      }),
    close: async () => {},
  };
}
