import { setTimeout as sleep } from 'node:timers/promises';
import { checkHistory, Recorder, type Counts, type History } from '@leasehold/core/testing/history';

import { randomOf } from '../e2e/fixtures/random.ts';
import { LiveStage } from './live-stage.ts';
import type { Healed, Nemesis, Need } from './nemesis.ts';
import { FENCE_SETTLES_MS, type BugName } from './owners/setup.ts';
import { sharedMs } from './pen.ts';
import type { Plan } from './plan.ts';
import { ticksThatGoBack, workloadOf } from './workload.ts';

export interface Services {
  /** A superuser's URL of a PostgreSQL. */
  readonly postgresUrl: string;
  /** Of a Redis for queues, which nobody hurts. */
  readonly queueUrl: string;
}

/** One fault, and its evidence. */
export interface Fault {
  readonly nemesis: string;
  readonly effect: number;
}

/** How an episode came out. */
export interface Episode {
  readonly plan: Plan;
  readonly faults: readonly Fault[];
  readonly counts: Counts;
  /** Each broken rule in words, with the events that show it. */
  readonly breaches: readonly string[];
  readonly waived: readonly string[];
  readonly history: History;
  /** From the first moment of the processes at work to the end. Milliseconds. */
  readonly chaosMs: number;
}

interface Patience {
  /** For `checkHistory`. */
  readonly pollMs: number;
  /** How long to wait until each resource is worked on again: longer than the rule allows. */
  readonly againMs: number;
}

/** Rules of liveness are asked of a machine that has much else to do. Those of safety know no patience. */
const PATIENT: Patience = { pollMs: 12_000, againMs: 40_000 };
/** When its clock was set back a store keeps the lease of a dead owner for as much longer: three minutes at most. */
const VERY_PATIENT: Patience = { pollMs: 100_000, againMs: 240_000 };
const LIMITS = { slackMs: 6000, fenceTimeoutMs: FENCE_SETTLES_MS };

/** Plays one episode and judges it. Rejects if it could not be played at all. */
export async function playEpisode(plan: Plan, services: Services, bug: BugName | null = null): Promise<Episode> {
  const workload = workloadOf(plan, services);
  const needs = new Set(plan.nemeses.flatMap((nemesis): readonly Need[] => nemesis.needs ?? []));
  await using stage = await LiveStage.open({
    ...plan,
    needs,
    resources: workload.resources,
    postgresUrl: services.postgresUrl,
    queue: workload.queue,
    bug,
  });
  const beganMs = sharedMs();
  const troubles: string[] = [];
  const faults: Fault[] = [];
  const waited: string[] = [];
  const { pollMs, againMs } = needs.has('store-clock') ? VERY_PATIENT : PATIENT;
  await using working = workload.begin();
  await writtenOn(stage, await stage.ledger.versions(), againMs);
  const untilMs = sharedMs() + plan.strikeMs;
  await Promise.all(
    plan.nemeses.map((nemesis, index) =>
      new Striker(stage, nemesis, plan.seed + index).strikeUntil(untilMs, faults, troubles),
    ),
  );
  // All is well again: each resource is worked on again, and by processes that all live.
  await Promise.all(stage.seats.map((seat) => seat.startAgain()));
  if (needs.has('store-clock')) setClockRight(stage);
  if (needs.has('owner-clock')) await working.calm();
  waited.push(...(await writtenOn(stage, await stage.ledger.versions(), againMs)));
  troubles.push(...(await working.settle(stage)));
  await Promise.all(stage.seats.map((seat) => seat.close()));
  const endMs = sharedMs();
  troubles.push(...stage.seats.flatMap((seat) => seat.troubles));
  const history = await stage.history(endMs);
  const { findings, waived, counts } = checkHistory(history, { ...LIMITS, pollMs, firstVersion: 0 });
  const broken = findings.filter(({ invariant }) => invariant !== 'V2').map(({ message }) => message);
  troubles.push(...ticksThatGoBack(history));
  // Without a finding of L1 it is a resource that nobody wanted.
  troubles.push(...waited);
  return {
    plan,
    faults,
    counts,
    breaches: [...broken, ...troubles],
    waived: waived.map(({ invariant, why }) => `${invariant}: ${why}`),
    history,
    chaosMs: endMs - beganMs,
  };
}

/** Resolves when each resource has seen another write; with what has not in time. */
async function writtenOn(
  stage: LiveStage,
  before: ReadonlyMap<string, number>,
  againMs: number,
): Promise<readonly string[]> {
  const untilMs = sharedMs() + againMs;
  for (;;) {
    const now = await stage.ledger.versions();
    const left = stage.qualified.filter((resource) => (now.get(resource) ?? 0) <= (before.get(resource) ?? 0));
    if (left.length === 0) return [];
    if (sharedMs() > untilMs)
      return left.map((resource) => `nobody wrote to ${resource} within ${againMs} ms of peace`);
    await sleep(50);
  }
}

/** One more step, ahead or back, and the last one. */
function setClockRight(stage: LiveStage): void {
  const kinds = ['store-clock', 'store-clock-back'];
  const recordings = kinds.map((nemesis) => stage.recorder.begin('nemesis', { nemesis, outcome: 'set right' }));
  stage.storeClock?.step(0);
  for (const { about, end } of recordings) end('ok', { nemesis: about.nemesis, effect: 1 });
}

/** One nemesis in one episode. */
class Striker {
  readonly #stage: LiveStage;
  readonly #nemesis: Nemesis;
  readonly #random: () => number;
  readonly #recorder: Recorder;
  #nowMs = 0;

  constructor(stage: LiveStage, nemesis: Nemesis, seed: number) {
    this.#stage = stage;
    this.#nemesis = nemesis;
    this.#random = randomOf(seed);
    this.#recorder = new Recorder({
      process: `nemesis ${nemesis.name}`,
      now: () => this.#nowMs,
      write: (line) => stage.nemesisPen({ line }),
    });
  }

  /** Of each fault that had an effect a line; one that met nobody was none. */
  async strikeUntil(untilMs: number, faults: Fault[], troubles: string[]): Promise<void> {
    const { name, atMost = Infinity } = this.#nemesis;
    let strikes = 0;
    // At least one, however long others take.
    const lastMs = untilMs + this.#stage.ttlMs * 20;
    while (strikes < atMost && sharedMs() < (strikes === 0 ? lastMs : untilMs)) {
      await sleep(100 + this.#random() * 500);
      try {
        const effect = await this.#strike();
        if (effect === null) continue;
        faults.push({ nemesis: name, effect });
        if (effect > 0) strikes++;
      } catch (error) {
        troubles.push(`the nemesis ${name} failed: ${error instanceof Error ? (error.stack ?? '') : String(error)}`);
        return;
      }
    }
    if (strikes === 0) troubles.push(`the nemesis ${name} had no effect`);
  }

  async #strike(): Promise<number | null> {
    const { name, kinds = [name] } = this.#nemesis;
    const calledMs = sharedMs();
    const strike = await this.#nemesis.strike(this.#stage);
    if (strike === null) return null;
    const { targets = [undefined], fromMs = calledMs } = strike;
    await sleep(strike.forMs);
    const healed = await strike.heal();
    const { effect, untilMs }: Healed = typeof healed === 'number' ? { effect: healed, untilMs: sharedMs() } : healed;
    if (effect <= 0) return effect;
    for (const nemesis of kinds) {
      for (const target of targets) {
        this.#nowMs = fromMs;
        const recording = this.#recorder.begin('nemesis', { nemesis, target, outcome: name });
        this.#nowMs = untilMs;
        recording.end('ok', { nemesis, target, effect });
      }
    }
    return effect;
  }
}
