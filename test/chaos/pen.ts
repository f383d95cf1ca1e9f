import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';

import type { FenceRow, HistoryLine } from '@leasehold/core/testing/history';

/** What a fence refused, as the one saw it who was refused. */
export type Refused = Omit<FenceRow, 'order' | 'accepted'>;

/** One line of a file of a history. */
export type Written = { readonly line: HistoryLine } | { readonly refused: Refused };

/** CLOCK_MONOTONIC, which all processes of a machine share and nobody can step. Milliseconds. */
export function sharedMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

/** Writes so that what was written is there, whatever happens to the process right afterwards. */
export class Pen {
  readonly #fd: number;

  constructor(file: string) {
    this.#fd = openSync(file, 'a');
  }

  write(written: Written): void {
    writeSync(this.#fd, `${JSON.stringify(written)}\n`);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** What a pen has written, without a last line that its process had no time to end. */
export function readWritten(file: string): readonly Written[] {
  // Killed before it began.
  if (!existsSync(file)) return [];
  const text = readFileSync(file, 'utf8');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Written);
}
