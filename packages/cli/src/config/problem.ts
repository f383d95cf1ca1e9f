import { LeaseholdError } from '@leasehold/core';

/** Where in a file; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** From the root of a config to a value: keys, and indexes of lists. */
export type Path = readonly (string | number)[];

/** Something in a config that cannot work, or, as a warning, that hardly does what was meant. */
export interface Problem {
  /** The file as it was named. Undefined for a config that came from no file. */
  readonly file: string | undefined;
  /** From 1. Undefined for modules, whose values have no place, and for a file as a whole. */
  readonly line: number | undefined;
  /** From 1. */
  readonly column: number | undefined;
  /** `jobs.nightly-report.lease.ttl`; empty for the file as a whole. */
  readonly path: string;
  /** What is wrong, and by which rule. Never a value from the environment, nor a password. */
  readonly message: string;
  /** What to do. */
  readonly remedy?: string | undefined;
}

/** A config that cannot be used, with all that is wrong with it (code `CONFIG`). */
export class ConfigFileError extends LeaseholdError {
  /** At least one, in the order of the file. */
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[], cause?: unknown) {
    const [first, ...others] = problems.map((problem) => oneLine(problem));
    const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
    super('CONFIG', `${first}${more}`, { cause });
    this.problems = problems;
  }
}

/** A line for each, as compilers print them: `file:line:column path: message; remedy`. */
export function formatProblems(problems: readonly Problem[]): string {
  return problems.map((problem) => `${oneLine(problem)}\n`).join('');
}

function oneLine({ file, line, column, path, message, remedy }: Problem): string {
  const place = [file, line, column].filter((part) => part !== undefined).join(':');
  const where = [place, path].filter((part) => part !== '').join(' ');
  const text = remedy === undefined ? message : `${message}; ${remedy}`;
  return where === '' ? text : `${where}: ${text}`;
}

/** `jobs.a.lease.fences[0]`, and `jobs["a.b"]` for keys that would be misread. */
export function pathText(path: Path): string {
  const end = path.length > 12 ? '…' : '';
  const keys = path
    .slice(0, 12)
    .map((key, index) => {
      if (typeof key === 'number') return `[${key}]`;
      if (!/^[\w-]+$/.test(key)) return `[${JSON.stringify(shorten(key))}]`;
      return index === 0 ? key : `.${key}`;
    })
    .join('');
  return `${keys}${end}`;
}

/** A text in a message: not longer than a line. */
export function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
