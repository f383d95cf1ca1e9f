import type { KnownNemesis } from '@leasehold/core/testing/history';

import type { Stage } from './stage.ts';

/**
 * What a stage has only if it is asked for. `owner-clock`: each seat has a wall clock of its own. `store-clock`: so has the store.
 * `replica`: the store has one. `aof`: the store writes all to its disk. `own-postgres`: the fence's server belongs to this stage alone.
 * `networks`: each seat is in a network of its own, whose link can be cut. `freezer`: processes can be frozen.
 */
export type Need = 'owner-clock' | 'store-clock' | 'replica' | 'aof' | 'own-postgres' | 'networks' | 'freezer';

/** The programs that processes of a stage may run. */
export type WorkloadName = 'core' | 'cron' | 'bullmq';

/** A fault that can be brought about again and again. */
export interface Nemesis {
  /** Of its own, for people and for `--only`: `kill`, `pause`, `store-restart-empty`. */
  readonly name: string;
  /** As which the rules are to know it; each is a line of the history of its own. Without one the name stands there. */
  readonly kinds?: readonly KnownNemesis[];
  /** The stage is built so that it has these; where the machine does not permit one, the episode is reported as not run. */
  readonly needs?: readonly Need[];
  /** Where it makes sense. @default everywhere */
  readonly workloads?: readonly WorkloadName[];
  /** Never with these (names) in one episode: what they do to the stage excludes each other. */
  readonly notWith?: readonly string[];
  /** No more often in one episode: each costs much. @default as often as there is time */
  readonly atMost?: number;
  /**
   * Begins the fault. Null if there was nothing that it could strike just now, which counts as no fault; the runner tries again.
   * May not throw for anything that another fault, or the end of a process, can bring about.
   */
  strike(stage: Stage): Promise<Strike | null>;
}

/** A fault that is going on. */
export interface Strike {
  /** The lives (`seat.life`) that it strikes, as they were when it began. A `pause` needs it. */
  readonly targets?: readonly string[];
  /** Until it has had its effect: the runner waits so long, and then heals. Milliseconds. */
  readonly forMs: number;
  /** When the fault really began (`stage.recorder.now()`), if later than the call of `strike`: of a pause, when it stood still. */
  readonly fromMs?: number;
  /**
   * Ends the fault, and resolves when all is as it was before; after a kill when the next life is ready. How often, or for how
   * many ms, it had its effect: 0 is a fault of the suite.
   */
  heal(): Promise<number | Healed>;
}

/** For a fault whose end is before the end of its healing. */
export interface Healed {
  readonly effect: number;
  /** When it was over (`stage.recorder.now()`): of a pause, right before it went on. */
  readonly untilMs: number;
}
