import { describeHappening, type Happening } from '../../src/testing/history/finding.ts';
import type { Counts } from '../../src/testing/history/counts.ts';
import type { History } from '../../src/testing/history/history.ts';
import { startMs as beginMs } from './actors.ts';
import type { FaultPlan } from './fault-plan.ts';
import type { Plan } from './plan.ts';
import type { Run } from './run.ts';
import type { Shrunk } from './shrink.ts';
import type { ProcessPlan } from './ways.ts';

/** The rules that a run breaks, and `problem` for what is no matter of rules. Empty if all is well. */
export function faultsOf({ verdict, problems }: Run): readonly string[] {
  const rules = verdict.findings.map(({ invariant }) => invariant);
  return [...new Set([...rules, ...(problems.length > 0 ? ['problem'] : [])])];
}

/** LeaseIds are drawn anew in each run: short names for them, in the order in which they come. */
export class Names {
  readonly #names = new Map<string, string>();

  in(text: string): string {
    return text.replaceAll(/\b[0-9a-f]{32}\b/g, (leaseId) => {
      const known = this.#names.get(leaseId);
      if (known !== undefined) return known;
      const name = `L${this.#names.size + 1}`;
      this.#names.set(leaseId, name);
      return name;
    });
  }
}

/** All of a history as text, a line for each thing that happened: of two runs of a plan it is the same. */
export function describeHistory({ lines, fences, grants }: History, names: Names = new Names()): readonly string[] {
  const all: readonly Happening[] = [...lines, ...fences, ...grants];
  return [...all].sort((a, b) => a.atMs - b.atMs).map((event) => names.in(describeHappening(event)));
}

/** What fails, the smallest plan that makes it fail, all that happened in it, and how to see it again. */
export function describeFailure(seed: number, { run, removed, tries }: Shrunk): string {
  const names = new Names();
  const story = describeHistory(run.history, names);
  const messages = [...run.problems, ...run.verdict.findings.map(({ message }) => message)].slice(0, 4);
  // One that is repeated was made smaller before, if at all.
  const smaller = removed.length > 0 && tries > 1 ? ` (smaller by ${removed.length} parts after ${tries} runs)` : '';
  return [
    `${titleOf(seed, run)}${smaller}`,
    ...describePlan(run.plan).map((line) => `  ${line}`),
    ...story.map((line) => `  ${line}`),
    ...messages.map((message) => names.in(message)),
    `again: ${commandOf(seed, removed)}`,
  ].join('\n');
}

/** A line for it in a list. */
export function shortly(seed: number, { run, removed }: Shrunk): string {
  return `${titleOf(seed, run)}, again: ${commandOf(seed, removed)}`;
}

const titleOf = (seed: number, run: Run): string => `seed ${seed} breaks ${faultsOf(run).join(', ')}`;

export function commandOf(seed: number, removed: readonly string[]): string {
  const leaving = removed.length === 0 ? '' : ` --without ${removed.join(',')}`;
  return `npm run simulate -- --seed ${seed}${leaving}`;
}

/** On the clock of the history, which a plan begins after `beginMs`. */
const at = (planMs: number): string => ms(beginMs + planMs);
const ms = (value: number): string => `${value.toLocaleString('en')} ms`;

export function describePlan({ ttlMs, calmMs, processes, faults }: Plan): readonly string[] {
  return [
    `ttl ${ms(ttlMs)}, calm from ${at(calmMs)}`,
    ...processes.flatMap(describeProcess),
    ...faults.map((fault) => describeFault(fault)),
  ];
}

function describeProcess({ id, startMs, driftPpm, wallMs, quarantine, sides, steps }: ProcessPlan): readonly string[] {
  const wall = wallMs === 0 ? '' : `, wall clock ${ms(wallMs)} off`;
  const careful = `${quarantine ? ', quarantine' : ''}${sides > 0 ? `, ${sides} leases beside` : ''}`;
  return [
    `process ${id} from ${at(startMs)}, clocks ${driftPpm} ppm off${wall}${careful}`,
    ...steps.map((step) => {
      const { afterMs, kind, resource, waitMs, writes, thinkMs, holdMs, commitMs, isStubborn, isDelegated } = step;
      const { giveUpMs, maxHoldMs } = step;
      const limits = `${giveUpMs > 0 ? `, gives up after ${giveUpMs}` : ''}${maxHoldMs > 0 ? `, maxHold ${maxHoldMs}` : ''}`;
      const manner = [isStubborn ? ', stubborn' : '', isDelegated ? ', by the bare grant' : ''].join('');
      return `  ${step.id} after ${ms(afterMs)}: ${kind} ${resource}, wait ${waitMs}, writes ${writes} (think ${thinkMs}, hold ${holdMs}, commit ${commitMs})${manner}${limits}`;
    }),
  ];
}

function describeFault({ id, kind, atMs, forMs, target, resource, choice, place }: FaultPlan): string {
  return `fault ${id} at ${at(atMs)}: ${kind} for ${ms(Math.round(forMs))} (${target}, ${resource}, choice ${choice}${place === undefined ? '' : `, ${place}`})`;
}

/** What so many seeds exercised, each figure for a thousand of them. */
export function describeCounts(counts: Counts, seeds: number): string {
  const figures = Object.entries(counts) as [keyof Counts, number][];
  const perThousand = (count: number): string => Math.round((count * 1000) / Math.max(1, seeds)).toLocaleString('en');
  return figures.map(([name, count]) => `${WORDS[name]} ${perThousand(count)}`).join(', ');
}

const WORDS: Record<keyof Counts, string> = {
  acquisitions: 'acquisitions',
  takeovers: 'takeovers',
  losses: 'losses',
  acceptedWrites: 'accepted writes',
  refusedWrites: 'refused writes',
  refusedActivations: 'refused activations',
  unknownAcquires: 'acquires without an answer',
  unknownWrites: 'writes without an answer',
  unknownOthers: 'other calls without an answer',
  overlaps: 'beliefs that overlapped',
  handOvers: 'hand-overs',
  revocations: 'revocations',
  forcedReleases: 'releases by force',
  faults: 'faults',
};
