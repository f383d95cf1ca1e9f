import { median, spreadOf } from './numbers.ts';
import type { Kind, Row, Table } from './report.ts';

export interface Contestant {
  readonly name: string;
  readonly kind: Kind;
}

/** What one slice gave, by name. */
export type Figures = Readonly<Record<string, number>>;

export interface Series<C extends Contestant = Contestant> {
  readonly contestant: C;
  readonly slices: readonly Figures[];
}

/**
 * Each in turn, A B C A B C …, because the machine's own speed drifts by more than what is to be measured: only ratios
 * within a round mean anything. The first is what the others are compared with. What comes before the rounds warms up.
 */
export async function interleave<C extends Contestant>(
  contestants: readonly C[],
  { rounds, warmUps = 1 }: { readonly rounds: number; readonly warmUps?: number },
  slice: (contestant: C) => Promise<Figures>,
): Promise<readonly Series<C>[]> {
  const series = contestants.map((contestant) => ({ contestant, slices: [] as Figures[] }));
  for (let round = -warmUps; round < rounds; round++) {
    for (const { contestant, slices } of series) {
      const figures = await slice(contestant);
      if (round >= 0) slices.push(figures);
    }
  }
  return series;
}

export interface TableOptions {
  readonly title: string;
  readonly unit: string;
  readonly better: Table['better'];
  /** The name of the figure. */
  readonly figure: string;
  /** Title of a column and the name of its figure: the median over the rounds is shown. */
  readonly more?: Readonly<Record<string, string>>;
  /** @default true */
  readonly compare?: boolean;
}

export function tableOf(
  series: readonly Series[],
  { title, unit, better, figure, more = {}, compare = true }: TableOptions,
): Table {
  const [floor] = series;
  const rows = series.map(({ contestant: { name, kind }, slices }): Row => {
    const own = valuesOf(slices, figure);
    const pairs = slices.flatMap((slice, round) => {
      const [value, base] = [slice[figure], floor?.slices[round]?.[figure]];
      return value === undefined || base === undefined || base === 0 ? [] : [value / base];
    });
    return {
      name,
      kind,
      value: spreadOf(own),
      ratio: compare && slices !== floor?.slices && pairs.length > 0 ? spreadOf(pairs) : null,
      more: Object.fromEntries(
        Object.entries(more).flatMap(([column, its]) => {
          const values = valuesOf(slices, its);
          return values.length === 0 ? [] : [[column, median(values)]];
        }),
      ),
    };
  });
  return { title, unit, better, rows };
}

export function valuesOf(slices: readonly Figures[], figure: string): number[] {
  return slices.flatMap((slice) => slice[figure] ?? []);
}
