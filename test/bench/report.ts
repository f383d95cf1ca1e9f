import type { Spread } from './numbers.ts';

/** `floor`: the least that the work can be. `other`: what is done without a lock, or by hand. */
export type Kind = 'floor' | 'ours' | 'peer' | 'other';

export interface Row {
  readonly name: string;
  readonly kind: Kind;
  readonly value: Spread;
  /** To the first row, of the values that were measured side by side. Null for that row, and where there is none. */
  readonly ratio: Spread | null;
  /** By column. */
  readonly more: Readonly<Record<string, number>>;
}

export interface Table {
  readonly title: string;
  /** What a value is: `µs`, `jobs/s`. */
  readonly unit: string;
  readonly better: 'more' | 'less';
  readonly rows: readonly Row[];
  /** Each row was measured once, so there is no spread to show. */
  readonly isOnce?: boolean;
}

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** How something grows. */
export interface Curve {
  readonly title: string;
  /** What grows: `leases held`. */
  readonly x: string;
  /** Unit of what is measured. */
  readonly y: string;
  readonly lines: readonly Line[];
  /** Upwards; otherwise by powers of ten where it spans more than thirty times. */
  readonly isLinear?: boolean;
  /** Where it bends, and why; a sentence. */
  readonly bend?: string;
}

export interface Target {
  readonly what: string;
  readonly rule: 'at least' | 'at most';
  readonly limit: number;
  readonly unit: string;
  readonly measured: number;
  readonly isMet: boolean;
}

export interface LeftOut {
  readonly name: string;
  readonly why: string;
}

export interface Findings {
  readonly tables: readonly Table[];
  /** They are the picture, in place of the tables' bars. */
  readonly curves?: readonly Curve[];
  /** Constants that docs/scaling.md counts with, by name. */
  readonly constants?: Readonly<Record<string, number>>;
  readonly targets: readonly Target[];
  readonly leftOut?: readonly LeftOut[];
}

export interface Noise {
  /** Processes that wanted to run, in the minute before. */
  readonly load: number;
  /** In this part of the time somebody waited for a core; null where the kernel does not say. */
  readonly waiting: number | null;
}

export interface Report extends Findings {
  readonly name: string;
  readonly title: string;
  /** What is measured and how, in a few sentences. */
  readonly method: string;
  readonly size: Size;
  readonly date: string;
  readonly tookS: number;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly noise: { readonly before: Noise; readonly during: Noise };
}

/** `full` is what the page shows, `quick` is for a look, `smoke` only that nothing is broken. */
export type Size = 'full' | 'quick' | 'smoke';

export function target(
  what: string,
  rule: Target['rule'],
  limit: number,
  measured: number | undefined,
  unit = '',
): Target {
  const value = measured ?? NaN;
  return { what, rule, limit, unit, measured: value, isMet: rule === 'at least' ? value >= limit : value <= limit };
}

export const rowOf = (table: Table | undefined, name: string): Row | undefined =>
  table?.rows.find((row) => row.name === name);

/** A row that was measured once. */
export const rowOnce = (name: string, kind: Kind, value: number, more: Row['more'] = {}): Row => ({
  name,
  kind,
  value: { median: value, p10: value, p90: value },
  ratio: null,
  more,
});
