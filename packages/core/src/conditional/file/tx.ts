import { createHash } from 'node:crypto';
import { ConfigError } from '../../errors.ts';
import { show } from '../../show.ts';

/** What the body of a write sees of the file. */
export interface FileTx {
  /** The file as it is, or as this body has written it; null if there is none. */
  read(): Promise<Buffer | null>;
  /** The whole new content, put in place when the body has settled. The last call counts. */
  write(data: string | Uint8Array): void;
}

/** One run of a body. */
export class FileRun implements FileTx {
  /** What is to be written, if anything is. */
  data: Buffer | undefined;
  readonly #load: () => Promise<Buffer | null>;
  #seen: Promise<Buffer | null> | undefined;
  #basis: Promise<string> | undefined;
  #isOver = false;

  constructor(load: () => Promise<Buffer | null>) {
    this.#load = load;
  }

  async run<T>(body: (tx: FileTx) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      this.#isOver = true;
    }
  }

  async read(): Promise<Buffer | null> {
    this.#checkOpen();
    if (this.data !== undefined) return Buffer.from(this.data);
    this.#seen ??= this.#load();
    // Of what was read, not of what the body makes of it in place.
    this.#basis ??= this.#seen.then(contentId);
    await this.#basis;
    const seen = await this.#seen;
    return seen === null ? null : Buffer.from(seen);
  }

  write(data: string | Uint8Array): void {
    this.#checkOpen();
    if (typeof data !== 'string' && !(data instanceof Uint8Array)) {
      throw new ConfigError('tx.write', `got ${show(data)}: must be a text or bytes`);
    }
    this.data = Buffer.from(data as Uint8Array);
  }

  /** Which content this run is based on; undefined if it has not looked. */
  async basis(): Promise<string | undefined> {
    return this.#basis;
  }

  #checkOpen(): void {
    if (this.#isOver) {
      throw new ConfigError('tx', 'this write is over; use tx only inside its body, and await all of it');
    }
  }
}

/** The same for the same content, and for no other. */
export function contentId(content: Buffer | null): string {
  return content === null ? 'none' : createHash('sha256').update(content).digest('hex');
}
