import { marginFor, trustFor } from './trust.ts';

/** How the run was set up, as far as the rules need it. All times in milliseconds. */
export interface CheckOptions {
  /** Of the managers. Default 0.01. */
  readonly driftRate?: number | undefined;
  /** Of the managers. Default: clamp(ttl / 20, 20, 500). */
  readonly safetyMarginMs?: number | undefined;
  /**
   * How far a process's clock may be from the history's, as a rate: its deadlines are as much later. Default 0: one
   * machine, one monotonic clock.
   */
  readonly clockDrift?: number | undefined;
  /**
   * How coarse the clock is by which a process knows that its machine has slept: a deadline may be as much later, inside the
   * margin. Default 0: no machine sleeps in the run. Linux: 10.
   */
  readonly sleepGrainMs?: number | undefined;
  /** Two beliefs may overlap by so much: what lies between a check and the line about it. Default 20. */
  readonly epsilonMs?: number | undefined;
  /** How often who wants a resource asks again. Default: the ttl. */
  readonly pollMs?: number | undefined;
  /** A call may settle so much after its timeout: timers are late. Default 250. */
  readonly slackMs?: number | undefined;
  /** An owner may hear of its loss so much after its deadline: timers are late. Default: `slackMs`. */
  readonly lateMs?: number | undefined;
  /** No operation of a fence takes longer, whatever happens to others. Default 6000. */
  readonly fenceTimeoutMs?: number | undefined;
  /**
   * Until when faults go on that no `nemesis` line tells of: from then on everything must work. Default: the end of the
   * last nemesis.
   */
  readonly healedMs?: number | undefined;
  /** Of the managers: for how long a lease lingers. Default: not known, and then not judged. */
  readonly lingerMs?: number | undefined;
  /** The version of the data, of each resource, when the run began. Default: not known. */
  readonly firstVersion?: number | undefined;
  /**
   * Judges a single run as one that must show every fault's effect, and all that runs are for; `faults`: the effects alone.
   * Default true.
   */
  readonly validity?: boolean | 'faults' | undefined;
}

export interface Settings {
  readonly clockDrift: number;
  readonly sleepGrainMs: number;
  readonly epsilonMs: number;
  readonly slackMs: number;
  readonly lateMs: number;
  readonly fenceTimeoutMs: number;
  readonly validity: boolean | 'faults';
  readonly pollMs: number | undefined;
  readonly healedMs: number | undefined;
  readonly firstVersion: number | undefined;
  readonly lingerMs: number | undefined;
  readonly marginMs: (ttlMs: number) => number;
  /** How long `remainingMs` of a lease may be trusted, on the history's clock. */
  readonly trustMs: (remainingMs: number, ttlMs: number) => number;
}

export function settingsOf(options: CheckOptions): Settings {
  const { driftRate = 0.01, safetyMarginMs, clockDrift = 0 } = options;
  const marginMs = (ttlMs: number): number => marginFor(ttlMs, safetyMarginMs);
  return {
    clockDrift,
    sleepGrainMs: options.sleepGrainMs ?? 0,
    epsilonMs: options.epsilonMs ?? 20,
    pollMs: options.pollMs,
    slackMs: options.slackMs ?? 250,
    lateMs: options.lateMs ?? options.slackMs ?? 250,
    fenceTimeoutMs: options.fenceTimeoutMs ?? 6000,
    healedMs: options.healedMs,
    firstVersion: options.firstVersion,
    lingerMs: options.lingerMs,
    validity: options.validity ?? true,
    marginMs,
    trustMs: (remainingMs, ttlMs) => trustFor(remainingMs, driftRate, marginMs(ttlMs)) * (1 + clockDrift),
  };
}
