import { CliError, EXIT } from '../exit.ts';
import { escapeJson, escapeText } from './escape.ts';
import type { Io } from './io.ts';
import { hasColour, styleOf, type Style, type Tone } from './style.ts';
import { aligned, tabbed, type Cell, type Column } from './table.ts';
import { formatRelative } from './time.ts';

/** The flags that every command has. `color` is commander's name for the absence of `--no-color`. */
export interface OutputFlags {
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
  readonly verbose?: boolean | undefined;
  readonly utc?: boolean | undefined;
  readonly color?: boolean | undefined;
}

const PROGRESS_MS = 5000;

/** Where there is no terminal, and in one that does not say. */
const DEFAULT_COLUMNS = 80;

/**
 * How a command speaks: data to the standard output, everything else to standard error. On a terminal tables are aligned
 * and instants are relative; in a pipe the columns are the same, separated by tabs, and instants are ISO 8601, UTC.
 */
export class Output {
  readonly isJson: boolean;
  readonly isVerbose: boolean;
  readonly style: Style;
  readonly #io: Io;
  readonly #isQuiet: boolean;
  readonly #isTerminal: boolean;
  readonly #isAbsolute: boolean;
  readonly #errorStyle: Style;
  #progressMs = -Infinity;

  constructor(io: Io, flags: OutputFlags) {
    const { json = false, quiet = false, verbose = false, utc = false, color = true } = flags;
    if (quiet && verbose) throw new CliError(EXIT.usage, '--quiet and --verbose contradict each other');
    this.#io = io;
    this.isJson = json;
    this.isVerbose = verbose;
    this.#isQuiet = quiet;
    this.#isTerminal = io.stdout.isTTY === true;
    this.#isAbsolute = utc || !this.#isTerminal;
    this.style = styleOf(hasColour(io, !color));
    this.#errorStyle = styleOf(hasColour({ stdout: io.stderr, env: io.env }, !color));
  }

  /** One object, with the name of its shape first. */
  json(schema: string, fields: object): void {
    this.#io.stdout.write(`${escapeJson(JSON.stringify({ schema: `leasehold/${schema}/v1`, ...fields }))}\n`);
  }

  /** The cells are escaped here. Without its head for rows that come later. */
  async table(
    columns: readonly Column[],
    rows: readonly (readonly Cell[])[],
    { head = true }: { readonly head?: boolean } = {},
  ): Promise<void> {
    const safe = rows.map((row) => row.map(({ text, tone }) => ({ text: escapeText(text), tone })));
    const whole = this.#isTerminal
      ? await aligned(columns, safe, { width: this.width, style: this.style, cuts: 'names' })
      : tabbed(columns, safe, this.style);
    this.#io.stdout.write(head ? whole : whole.slice(whole.indexOf('\n') + 1));
  }

  /** Names and values, one pair a line; values are escaped here. */
  fields(pairs: readonly (readonly [name: string, value: string, tone?: Tone])[]): void {
    const width = Math.max(...pairs.map(([name]) => name.length));
    for (const [name, value, tone] of pairs) {
      const shown = tone === undefined ? escapeText(value) : this.style(tone, escapeText(value));
      const head = this.#isTerminal ? `${this.style('quiet', name.padEnd(width))}  ` : `${name}\t`;
      this.#io.stdout.write(`${head}${shown}\n`);
    }
  }

  /** One line of data, escaped here. */
  line(text: string): void {
    this.#io.stdout.write(`${escapeText(text)}\n`);
  }

  /** Ready text, to the standard output. */
  text(text: string): void {
    this.#io.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
  }

  /** A title between parts of the data; only people need it, unless what comes means nothing without it. */
  heading(text: string, needed: 'people' | 'always' = 'people'): void {
    if (this.#isTerminal || needed === 'always') this.#io.stdout.write(`\n${this.style('strong', text)}\n`);
    else this.#io.stdout.write('\n');
  }

  /** For people, to standard error, unless they asked for quiet. Escaped here. */
  note(text: string, tone?: Tone): void {
    if (!this.#isQuiet) this.warn(text, tone);
  }

  /** As `note`, where a person reads: not in a pipe. */
  aside(text: string): void {
    if (this.#isTerminal) this.note(text, 'quiet');
  }

  /** How far long work has come; a line each few seconds. */
  progress(text: string): void {
    const now = performance.now();
    if (now - this.#progressMs < PROGRESS_MS) return;
    this.#progressMs = now;
    this.note(text, 'quiet');
  }

  /** As `note`, also if quiet was asked for. */
  warn(text: string, tone?: Tone): void {
    const line = escapeText(text);
    this.#io.stderr.write(`${tone === undefined ? line : this.#errorStyle(tone, line)}\n`);
  }

  instant(at: Date): string {
    return this.#isAbsolute ? at.toISOString() : formatRelative(at, Date.now());
  }

  get width(): number {
    return this.#io.stdout.columns ?? DEFAULT_COLUMNS;
  }
}
