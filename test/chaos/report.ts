import { addCounts, checkCounts, noCounts } from '@leasehold/core/testing/history';

import type { Episode } from './episode.ts';
import { titleOf, type Plan } from './plan.ts';

/** What a run of many episodes came to. */
export class Report {
  readonly #seed: number;
  readonly #isPart: boolean;
  readonly #counts = noCounts();
  readonly #faults = new Map<string, { times: number; effect: number; missed: number }>();
  readonly #notRun = new Map<string, string>();
  readonly #breaches: { readonly plan: string; readonly what: readonly string[] }[] = [];
  readonly #failed: string[] = [];
  readonly #workloads = new Map<string, number>();
  readonly #waived = new Map<string, number>();
  #episodes = 0;
  #chaosMs = 0;

  /** `isPart`: of some nemeses only, of which nobody expects that they bring about all that a suite must have met. */
  constructor(seed: number, isPart: boolean) {
    this.#seed = seed;
    this.#isPart = isPart;
  }

  add({ plan, faults, counts, breaches, waived, chaosMs }: Episode): void {
    this.#episodes++;
    this.#chaosMs += chaosMs;
    this.#workloads.set(plan.workload, (this.#workloads.get(plan.workload) ?? 0) + 1);
    addCounts(this.#counts, counts);
    for (const { nemesis, effect } of faults) {
      const sum = this.#faults.get(nemesis) ?? { times: 0, effect: 0, missed: 0 };
      this.#faults.set(nemesis, {
        times: sum.times + (effect > 0 ? 1 : 0),
        effect: sum.effect + effect,
        missed: sum.missed + (effect > 0 ? 0 : 1),
      });
    }
    for (const why of waived) this.#waived.set(why, (this.#waived.get(why) ?? 0) + 1);
    if (breaches.length > 0) this.#breaches.push({ plan: titleOf(plan), what: breaches });
  }

  notRun(nemesis: string, why: string): void {
    this.#notRun.set(nemesis, why);
  }

  failed(plan: Plan, error: unknown): void {
    this.#failed.push(`${titleOf(plan)}: ${String(error)}`);
  }

  /** Faults of all kinds that had an effect. */
  get faults(): number {
    return [...this.#faults.values()].reduce((sum, { times }) => sum + times, 0);
  }

  /** What the run has not met, without which it proves little. */
  get gaps(): readonly string[] {
    return checkCounts(this.#counts).map(({ why }) => why);
  }

  get isGood(): boolean {
    const idle = [...this.#faults.values()].some(({ times }) => times === 0);
    const wrong = [...this.#breaches, ...this.#failed, ...(this.#isPart ? [] : this.gaps)];
    return !idle && this.#episodes > 0 && wrong.length === 0;
  }

  json(): object {
    const { faults: _, overlaps, ...counts } = this.#counts;
    return {
      seed: this.#seed,
      episodes: this.#episodes,
      workloads: Object.fromEntries(this.#workloads),
      chaosMinutes: this.#chaosMs / 60_000,
      faults: this.faults,
      nemeses: Object.fromEntries([...this.#faults].sort(([a], [b]) => a.localeCompare(b))),
      notRun: Object.fromEntries(this.#notRun),
      ...counts,
      waivedOverlaps: overlaps,
      waivedRules: Object.fromEntries(this.#waived),
      breaches: this.#breaches,
      notPlayed: this.#failed,
      gaps: this.gaps,
    };
  }

  text(): string {
    const c = this.#counts;
    const rows: [string, string | number][] = [
      ['seed', this.#seed],
      ['episodes', `${this.#episodes} (${[...this.#workloads].map(([name, times]) => `${name} ${times}`).join(', ')})`],
      ['minutes of chaos', (this.#chaosMs / 60_000).toFixed(1)],
      ['faults', this.faults],
      ['acquisitions', c.acquisitions],
      ['takeovers', c.takeovers],
      ['losses', c.losses],
      ['hand-overs', c.handOvers],
      ['revocations', c.revocations],
      ['forced releases', c.forcedReleases],
      ['writes accepted', c.acceptedWrites],
      ['writes refused', c.refusedWrites],
      ['activations refused', c.refusedActivations],
      ['acquisitions without an answer', c.unknownAcquires],
      ['writes without an answer', c.unknownWrites],
      ['other calls without an answer', c.unknownOthers],
      ['overlaps that faults allow', c.overlaps],
      ['breaches', this.#breaches.reduce((sum, { what }) => sum + what.length, 0)],
    ];
    const wide = Math.max(...rows.map(([name]) => name.length));
    const faults = [...this.#faults].sort(([a], [b]) => a.localeCompare(b));
    return [
      ...rows.map(([name, value]) => `${name.padEnd(wide)}  ${value}`),
      '',
      ...faults.map(
        ([name, { times, effect, missed }]) =>
          `  ${name.padEnd(28)} ${`${times}`.padStart(5)} times, effect ${Math.round(effect)}${missed > 0 ? `, met nobody ${missed} times` : ''}${times === 0 ? ': WITHOUT EFFECT' : ''}`,
      ),
      ...[...this.#notRun].map(([name, why]) => `  ${name.padEnd(28)} not run: ${why}`),
      ...this.#failed.map((each) => `NOT PLAYED  ${each}`),
      ...this.gaps.map((each) => (this.#isPart ? `(a whole run must meet more: ${each})` : `NOT MET  ${each}`)),
      ...this.#breaches.map(
        ({ plan, what }) => `BREACH  ${plan}: ${what.length}, ${(what[0] ?? '').split('\n', 2).join(' ')}`,
      ),
    ].join('\n');
  }
}
