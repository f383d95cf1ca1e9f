import { emitKeypressEvents, type Key } from 'node:readline';
import type { Io } from './io.ts';

const ENTER = '\u001B[?1049h\u001B[?25l\u001B[?7l';
const LEAVE = '\u001B[?7h\u001B[?25h\u001B[?1049l';
const HOME = '\u001B[H';
const CLEAR_LINE = '\u001B[K';
const CLEAR_REST = '\u001B[J';

interface Handlers {
  /** `text` is what was typed, if it is text. */
  readonly onKey: (name: string, text: string) => void;
  readonly onResize: () => void;
}

/** The terminal, taken whole: its other screen, without a cursor, keys unechoed. Given back when disposed of, and when the process ends. */
export class Screen implements Disposable {
  readonly #io: Io;
  readonly #handlers: Handlers;

  constructor(io: Io, handlers: Handlers) {
    this.#io = io;
    this.#handlers = handlers;
    process.on('exit', this.#leave);
    // After the stream's own listener, which asks for the new size.
    process.on('SIGWINCH', handlers.onResize);
    emitKeypressEvents(io.stdin);
    io.stdin.setRawMode?.(true);
    io.stdin.on('keypress', this.#key).on('end', this.#gone).resume();
    io.stdout.write(ENTER);
  }

  /** Columns and rows, as they are now. */
  get size(): { readonly width: number; readonly height: number } {
    const { columns, rows } = this.#io.stdout;
    // A terminal that does not know its size says 0.
    return { width: columns || 80, height: rows || 24 };
  }

  draw(lines: readonly string[]): void {
    // In one piece, so that it does not flicker. Cleared before it is written: behind a full line the cursor stands on its last character.
    const last = lines.length - 1;
    const cleared = lines.map((line, index) => `${index === last ? CLEAR_REST : CLEAR_LINE}${line}`);
    this.#io.stdout.write(`${HOME}${cleared.join('\r\n')}`);
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#leave);
    process.off('SIGWINCH', this.#handlers.onResize);
    this.#io.stdin.off('keypress', this.#key).off('end', this.#gone).pause();
    this.#leave();
  }

  readonly #leave = (): void => {
    this.#io.stdin.setRawMode?.(false);
    this.#io.stdout.write(LEAVE);
  };

  readonly #key = (text: string | undefined, { name, ctrl, meta }: Key): void => {
    const isText = ctrl !== true && meta !== true && text !== undefined && /^[^\p{C}]+$/u.test(text);
    this.#handlers.onKey(ctrl === true ? `ctrl-${name ?? ''}` : (name ?? ''), isText ? text : '');
  };

  /** The terminal was closed. */
  readonly #gone = (): void => this.#handlers.onKey('ctrl-c', '');
}
