import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, vi } from 'vitest';

import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { closed, opened } from './leftovers.ts';

const run = promisify(execFile);

/** Of a shell in single quotes. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

interface TerminalOptions {
  readonly columns: number;
  readonly rows: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** A real terminal, of tmux, with one command in it: what it shows is read as a person would, and keys are pressed. */
export class Terminal implements AsyncDisposable {
  readonly #socket: string;
  readonly #dir: string;
  readonly #tmux: string;
  readonly #leftover = { what: 'a terminal', end: () => this[Symbol.asyncDispose]() };

  private constructor(tmux: string) {
    this.#tmux = tmux;
    this.#dir = guardedFolder('terminal');
    this.#socket = join(this.#dir, 'socket');
    opened(this.#leftover);
  }

  /** `script` is a line for sh. The screen stays after it has ended: `end` is there to wait for, `exit <status>` its last line. */
  static async start(script: string, { columns, rows, env = {} }: TerminalOptions): Promise<Terminal> {
    const path = find('tmux', thisMachine).path;
    if (path === null) throw new Error('no tmux: write this test with testNeeding');
    const terminal = new Terminal(path);
    const sets = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`);
    const command = `${['env', ...sets].join(' ')} sh -c ${quoted(script)}; echo "exit $?"; exec cat >/dev/null`;
    await terminal.#command(
      ...['-f', '/dev/null', 'new-session', '-d', '-x', String(columns), '-y', String(rows), 'sh', '-c', command],
    );
    return terminal;
  }

  /** The lines as they stand, without what is blank at their ends. `colours`: with the escape sequences. */
  async screen({ colours = false } = {}): Promise<readonly string[]> {
    const text = await this.#command('capture-pane', '-p', ...(colours ? ['-e'] : []));
    return text.replace(/\n+$/, '').split('\n');
  }

  /** Waits until the screen shows it, and gives the screen. */
  async shows(pattern: RegExp): Promise<readonly string[]> {
    let lines: readonly string[] = [];
    await vi.waitFor(
      async () => {
        lines = await this.screen();
        expect(lines.join('\n')).toMatch(pattern);
      },
      { timeout: 15_000, interval: 50 },
    );
    return lines;
  }

  /** Names of tmux: `q`, `Enter`, `C-c`, `Down`. */
  async press(...keys: readonly string[]): Promise<void> {
    await this.#command('send-keys', ...keys);
  }

  async type(text: string): Promise<void> {
    await this.#command('send-keys', '-l', text);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#command('resize-window', '-x', String(columns), '-y', String(rows));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    await this.#command('kill-server').catch(() => {});
    removeFolder(this.#dir);
  }

  async #command(...args: readonly string[]): Promise<string> {
    const env = { ...environmentOf(this.#tmux), LC_ALL: 'C.UTF-8', TERM: 'xterm-256color', TMUX: '' };
    const { stdout } = await run(this.#tmux, ['-S', this.#socket, ...args], { env });
    return stdout;
  }
}
