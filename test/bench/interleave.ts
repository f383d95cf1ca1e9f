/** One way of doing the work: `round` does it `count` times; what `prepare` takes before that is not measured. */
export interface Variant {
  readonly name: string;
  prepare?(count: number): Promise<void>;
  round(count: number): Promise<void>;
}

export interface Result {
  readonly name: string;
  /** Median of operations per second over the rounds. */
  readonly perSecond: number;
  /** Median, 10th and 90th percentile of this round's speed divided by the floor's speed in the same round. */
  readonly ratio: { readonly median: number; readonly p10: number; readonly p90: number };
}

export function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] as number;
}

/**
 * Runs the variants in turn, A B C A B C …, because the machine's own speed drifts by more than what is to be measured:
 * only ratios within a round mean anything. The first variant is the floor.
 */
export async function interleave(variants: readonly Variant[], rounds: number, count: number): Promise<Result[]> {
  for (const variant of variants) {
    await variant.prepare?.(count);
    await variant.round(count);
  }
  const speeds = variants.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, variant] of variants.entries()) {
      await variant.prepare?.(count);
      const from = performance.now();
      await variant.round(count);
      speeds[index]?.push((count / (performance.now() - from)) * 1000);
    }
  }
  const floor = speeds[0] as number[];
  return variants.map(({ name }, index) => {
    const own = speeds[index] as number[];
    const ratios = own.map((speed, round) => speed / (floor[round] as number)).sort((a, b) => a - b);
    return {
      name,
      perSecond: percentile(
        [...own].sort((a, b) => a - b),
        0.5,
      ),
      ratio: { median: percentile(ratios, 0.5), p10: percentile(ratios, 0.1), p90: percentile(ratios, 0.9) },
    };
  });
}

export function show(title: string, results: readonly Result[]): void {
  const width = Math.max(...results.map(({ name }) => name.length));
  console.log(`\n${title}\n${'variant'.padEnd(width)}   ops/s   ÷ floor   p10–p90`);
  for (const { name, perSecond, ratio } of results) {
    const range = `${ratio.p10.toFixed(2)}–${ratio.p90.toFixed(2)}`;
    console.log(
      `${name.padEnd(width)}  ${String(Math.round(perSecond)).padStart(6)}   ${ratio.median.toFixed(3).padStart(7)}   ${range}`,
    );
  }
}
