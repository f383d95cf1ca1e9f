import type { ConditionalCell } from '../../src/conditional/cell.ts';
import type { Versioned } from '../../src/conditional/place.ts';

/**
 * What goes wrong with one request:
 *
 * - `lose-request`, `lose-answer`: an error; nothing was done, or all of it.
 * - `late`: an error now; the request is carried out by `deliver()`.
 * - `hang`: no answer at all; carried out by `deliver()`, too.
 * - `twice`: done, and sent once more behind the caller's back, who hears the answer to the second.
 * - `conflict`: refused without need.
 */
export type Fault = 'lose-request' | 'lose-answer' | 'late' | 'hang' | 'twice' | 'conflict';

type Log = ConditionalCell<readonly string[]>;

/** A place with cells in memory, as text, which takes a moment for everything. */
export class Cells {
  /** Of the next calls of `compareAndSet`, in order; null for none. */
  readonly faults: (Fault | null)[] = [];
  /** Called before each request is carried out. */
  onRequest: (cell: Log) => unknown = () => {};
  /** Called before each read. */
  onRead: () => unknown = () => {};
  sent = 0;
  protected readonly stored: Map<string, string> = new Map();
  readonly #late: (() => void)[] = [];

  async read(resource: string): Promise<Versioned<readonly string[], string> | null> {
    await moment();
    await this.onRead();
    const text = this.stored.get(resource);
    if (text === undefined) return null;
    const cell = JSON.parse(text) as Log;
    return { version: this.versionOf(cell), cell };
  }

  async compareAndSet(resource: string, version: string | null, cell: Log): Promise<boolean> {
    this.sent++;
    const fault = this.faults.shift();
    await moment();
    await this.onRequest(cell);
    const carryOut = (): boolean => {
      const text = this.stored.get(resource);
      const now = text === undefined ? null : this.versionOf(JSON.parse(text) as Log);
      if (!this.holds(version, now)) return false;
      this.stored.set(resource, JSON.stringify(cell));
      return true;
    };
    switch (fault) {
      case 'lose-request':
        throw new Error('the request was lost');
      case 'conflict':
        return false;
      case 'late':
      case 'hang':
        this.#late.push(carryOut);
        if (fault === 'hang') await new Promise(() => {});
        throw new Error('the connection was lost');
      case 'twice':
        carryOut();
        return carryOut();
      case 'lose-answer':
        carryOut();
        throw new Error('the answer was lost');
      default:
        return carryOut();
    }
  }

  /** Calls `act` before the next read that follows a request: when a fence looks what became of it. */
  whenItLooks(act: () => unknown): void {
    this.onRequest = () => {
      this.onRequest = () => {};
      this.onRead = () => {
        this.onRead = () => {};
        return act();
      };
    };
  }

  /** What was late arrives. */
  deliver(): void {
    for (const carryOut of this.#late.splice(0)) carryOut();
  }

  entries(resource: string): readonly string[] {
    return this.cell(resource)?.value ?? [];
  }

  cell(resource: string): Log | null {
    const text = this.stored.get(resource);
    return text === undefined ? null : (JSON.parse(text) as Log);
  }

  /** Anything, as another program may put it there; undefined deletes. */
  put(resource: string, found: unknown): void {
    if (found === undefined) this.stored.delete(resource);
    else this.stored.set(resource, JSON.stringify(found));
  }

  protected versionOf(cell: Log): string {
    return `version of ${cell.writeId}`;
  }

  protected holds(expected: string | null, now: string | null): boolean {
    return expected === now;
  }
}

function moment(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
