import { performance } from 'node:perf_hooks';
import colors from 'picocolors';

const lanes = [colors.cyan, colors.yellow, colors.magenta];

export interface Entry {
  readonly process?: string;
  /** What it owns. */
  readonly owns?: string;
  readonly token?: number;
  readonly tone?: 'plain' | 'faint' | 'good' | 'bad' | 'loud';
}

/** Prints what happens as it happens. */
export class Timeline {
  readonly #begin = performance.now();
  readonly #base: number;

  /** Tokens are printed as the difference to `base`: all 16 digits would hide which of two is larger. */
  constructor(base: number) {
    this.#base = base;
  }

  get seconds(): number {
    return (performance.now() - this.#begin) / 1000;
  }

  head(): void {
    const columns = ['seconds', 'process', 'owner of', '   token'];
    console.log(colors.dim(row(columns as [string, string, string, string], 'event')));
  }

  act(title: string, ...lines: readonly string[]): void {
    console.log(`\n${colors.bold(title)}`);
    for (const line of lines) console.log(colors.dim(line));
    console.log();
  }

  add(event: string, { process = '', owns = '', token, tone = 'plain' }: Entry = {}): void {
    const lane = lanes[process.charCodeAt(0) - 'A'.charCodeAt(0)] ?? ((text: string) => text);
    const seconds = this.seconds.toFixed(2).padStart(7);
    const shown = token === undefined ? '' : this.short(token);
    const paint = { plain: String, faint: colors.dim, good: colors.green, bad: colors.red, loud: colors.bold }[tone];
    const begin = row([seconds, process.padEnd(7), owns.padEnd(8), shown.padStart(8)], '');
    console.log(tone === 'faint' ? colors.dim(begin + event) : lane(begin) + paint(event));
  }

  short(token: number): string {
    return String(token - this.#base);
  }
}

function row(columns: readonly [string, string, string, string], event: string): string {
  const [seconds, process, owns, token] = columns;
  return `${seconds}  ${process.padEnd(7)}  ${owns.padEnd(8)}  ${token.padStart(8)}  ${event}`;
}
