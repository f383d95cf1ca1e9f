import { pathText, type Path, type Place, type Problem } from './problem.ts';

/** Where a value and its key are. */
export interface Spot {
  readonly key: Place | undefined;
  readonly value: Place;
}

/** What a config was read from: says where things are, and how they were written. */
export class Source {
  /** As it was named, or undefined. */
  readonly file: string | undefined;
  readonly #spots = new Map<string, Spot>();
  /** Texts with values of the environment in them, as they were written. */
  readonly #written = new Map<string, string>();

  constructor(file: string | undefined) {
    this.file = file;
  }

  put(path: Path, spot: Spot): void {
    this.#spots.set(JSON.stringify(path), spot);
  }

  /** The value there is not to be shown, because part of it is the environment's. */
  hide(path: Path, written: string): void {
    this.#written.set(JSON.stringify(path), written);
  }

  /** How the value was written, if it is not to be shown. */
  written(path: Path): string | undefined {
    return this.#written.get(JSON.stringify(path));
  }

  /** `at` is `key` for what is wrong with a key. What is not there is missing in what is around it. */
  problem(path: Path, message: string, remedy?: string, at: 'key' | 'value' = 'value'): Problem {
    const place = this.#place(path, at);
    return {
      file: this.file,
      line: place?.line,
      column: place?.column,
      path: pathText(path),
      message,
      ...(remedy !== undefined && { remedy }),
    };
  }

  #place(path: Path, at: 'key' | 'value'): Place | undefined {
    const spot = this.#spots.get(JSON.stringify(path));
    if (spot !== undefined) return at === 'key' ? (spot.key ?? spot.value) : spot.value;
    return path.length === 0 ? undefined : this.#place(path.slice(0, -1), 'key');
  }
}

/** A config as it was read: plain values, and all that kept it from being read whole. */
export interface Raw {
  /** Undefined if nothing can be said of what is in it. */
  readonly value: unknown;
  /** Paths (as texts) of what was not read: nothing more is to be said of them. */
  readonly unread?: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** In the order of the file; the same thing said once. */
export function sorted(problems: readonly Problem[]): readonly Problem[] {
  const seen = new Set<string>();
  return problems
    .filter((problem) => {
      const text = JSON.stringify(problem);
      return seen.has(text) ? false : seen.add(text);
    })
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
}

/** Keys that stand for something else than themselves in JavaScript. */
export const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** More levels than any config has. */
export const MAX_DEPTH = 32;
/** More values than any config has, with those that aliases repeat. */
export const MAX_VALUES = 50_000;
