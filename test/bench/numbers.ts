/** Median, 10th and 90th percentile. */
export interface Spread {
  readonly median: number;
  readonly p10: number;
  readonly p90: number;
}

export const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

export function percentile(ascending: readonly number[], part: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * part))] ?? NaN;
}

export const median = (values: readonly number[]): number => percentile(sorted(values), 0.5);

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

export function spreadOf(values: readonly number[]): Spread {
  const ascending = sorted(values);
  return { median: percentile(ascending, 0.5), p10: percentile(ascending, 0.1), p90: percentile(ascending, 0.9) };
}

/** Jain's index of fairness: 1 when all had as many, 1 / n when one had them all. */
export function jain(counts: readonly number[]): number {
  return sum(counts) ** 2 / (counts.length * sum(counts.map((count) => count ** 2)));
}

/** Three digits that count. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** What the JSON keeps: four digits that count. It makes null of what was not measured. */
export function rounded(value: number): number {
  return Number.isFinite(value) ? Number(value.toPrecision(4)) : NaN;
}
