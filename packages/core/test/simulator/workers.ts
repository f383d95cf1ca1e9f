import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Counts } from '../../src/testing/history/counts.ts';
import type { Coverage } from './coverage.ts';

/** Seeds in a row, for one worker. */
export interface Part {
  readonly from: number;
  readonly seeds: number;
}

/** What became of them. */
export interface Outcome {
  readonly seeds: number;
  readonly counts: Counts;
  readonly coverage: Coverage;
  readonly failures: readonly Failure[];
}

/** Of a seed that was made as small as can be, in words. */
export interface Failure {
  readonly whole: string;
  /** In one line. */
  readonly short: string;
}

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url));

/** Has `workers` processes take one part after the other, until there is none. A seed gives the same in any of them. */
export async function inWorkers(
  workers: number,
  next: () => Part | undefined,
  told: (outcome: Outcome) => void,
): Promise<void> {
  await Promise.all(Array.from({ length: workers }, () => inWorker(next, told)));
}

async function inWorker(next: () => Part | undefined, told: (outcome: Outcome) => void): Promise<void> {
  let part = next();
  if (part === undefined) return;
  // With our own arguments of node: what loads TypeScript.
  const worker = fork(WORKER);
  const ended = once(worker, 'exit');
  worker.on('message', (outcome: Outcome) => {
    told(outcome);
    part = next();
    if (part === undefined) worker.disconnect();
    else worker.send(part);
  });
  worker.send(part);
  const [code] = (await ended) as [number | null];
  if (part !== undefined || code !== 0)
    throw new Error(`a worker ended with ${String(code)} at seed ${String(part?.from)}`);
}
