import type { Clock, Timer } from '../../src/clock.ts';
import { Chance } from '../../src/testing/fence/chance.ts';
import { Recorder } from '../../src/testing/history/recorder.ts';
import type { Place } from './points.ts';
import type { Actor, Event, World } from './world.ts';

/** Where the wall clock of a run begins, at the beginning of the world's time. */
export const START_MS: number = Date.UTC(2026, 0, 15, 3, 0, 0);

/** Later than any timer of a process that nobody disturbs. */
const LATE_US = 20_000;

/** A stop of a process that waits for its place: so many more readings of a clock, or calls, away. */
interface Stop {
  steps: number;
  /** Undefined for any. */
  readonly place: Place | undefined;
  readonly forUs: number;
  readonly stop: (fromUs: number) => void;
}

/**
 * One life of one process: its clocks, its timers, and the moments at which it can be stopped. It can be at each reading of
 * a clock and each call, because that is all that a process shares with others: whatever it does after that is done, for
 * everybody else, when it goes on.
 */
export class SimProcess implements Actor, Clock {
  readonly name: string;
  readonly chance: Chance;
  readonly recorder: Recorder;
  isAlive = true;
  busyUntilUs = 0;
  readonly #world: World;
  readonly #rate: number;
  #wallUs: number;
  /** The machine slept for so long: neither the monotonic clock nor timers know. */
  #sleptUs = 0;
  /** All its clocks stood still for so long, as those of a virtual machine that is paused. */
  #frozenUs = 0;
  #readings = 0;
  /** In which event the store's last answer came, until a place has been passed since. */
  #answered = -1;
  #stops: Stop[] = [];

  /** `rate`: of its clocks, against the time of the world. */
  constructor(world: World, name: string, seed: number, rate: number, wallMs: number) {
    this.name = name;
    this.chance = new Chance(seed);
    this.#world = world;
    this.#rate = rate;
    this.#wallUs = (START_MS + wallMs) * 1000;
    this.recorder = new Recorder({
      process: name,
      now: () => this.nowUs / 1000,
      write: (line) => {
        if (this.isAlive) world.lines.push(line);
      },
    });
  }

  /** When it is for this process: later than for the world, if it was stopped in the midst of its work. */
  get nowUs(): number {
    return Math.max(this.#world.nowUs, this.busyUntilUs);
  }

  /** To be called wherever the process may be stopped. `place`: what that moment is, if it is one to be counted. */
  step(place?: Place): void {
    const isFirst = this.#answered === this.#world.events;
    this.#answered = -1;
    const [stop] = this.#stops;
    if (stop === undefined) return;
    const here = place ?? (isFirst ? 'stopped between the answer of the store and its use' : undefined);
    if ((stop.place !== undefined && stop.place !== here) || --stop.steps > 0) return;
    this.#stops.shift();
    if (here !== undefined) this.#world.reach(here);
    const fromUs = this.nowUs;
    this.busyUntilUs = fromUs + stop.forUs;
    stop.stop(fromUs);
  }

  /** The store has answered, in the event that is at work: the next place is before anything is made of it. */
  answered(): void {
    this.#answered = this.#world.events;
  }

  /** A timer was so late. */
  late(byUs: number): void {
    if (byUs > LATE_US) this.#world.reach('a timer was late');
  }

  /** Stops at the `steps`-th place from now, or of that name. `stop` is told when that was. */
  stopAfter(steps: number, place: Place | undefined, forUs: number, stop: (fromUs: number) => void): void {
    this.#stops.push({ steps, place, forUs, stop });
  }

  /** The machine sleeps from now on: unlike a stopped process, its monotonic clock stands still. */
  sleep(forUs: number): void {
    this.#sleptUs += forUs;
    this.busyUntilUs = this.nowUs + forUs;
  }

  /** Like `sleep`, but no clock of the machine tells of it. */
  freeze(forUs: number): void {
    this.#frozenUs += forUs;
    this.busyUntilUs = this.nowUs + forUs;
  }

  stepWall(ms: number): void {
    this.#wallUs += ms * 1000;
  }

  monotonicMs(): number {
    this.step();
    const now = this.#monotonicUs() / 1000;
    // Stopped before the reading, or right after it: then it goes on with an old one.
    this.step();
    return now;
  }

  wallMs(): number {
    this.step();
    return Math.floor(this.#wallNowUs() / 1000);
  }

  wallUs(): number {
    this.step();
    return Math.floor(this.#wallNowUs() / 1000) * 1000 + (this.#readings++ % 1000);
  }

  uptimeMs(): number {
    this.step();
    return Math.floor(((this.nowUs - this.#frozenUs) * this.#rate + 5_000_000) / 10_000) * 10;
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const delayUs = Math.max(1, Math.trunc(delayMs)) * 1000;
    return new SimTimer(this, this.#monotonicUs() + delayUs, fire);
  }

  /** For timers: when `dueUs` of the monotonic clock will be, if the machine does not sleep until then. */
  alarm(dueUs: number, fire: () => void): Event {
    return this.#world.at(this.nowUs + this.leftUs(dueUs) / this.#rate, this, fire);
  }

  leftUs(dueUs: number): number {
    return dueUs - this.#monotonicUs();
  }

  /** Resolves after so long by its own clock. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.setTimer(ms, resolve));
  }

  #monotonicUs(): number {
    return (this.nowUs - this.#sleptUs - this.#frozenUs) * this.#rate;
  }

  #wallNowUs(): number {
    return this.#wallUs + (this.nowUs - this.#frozenUs) * this.#rate;
  }
}

class SimTimer implements Timer {
  readonly #process: SimProcess;
  readonly #dueUs: number;
  readonly #fire: () => void;
  #event: Event;

  constructor(process: SimProcess, dueUs: number, fire: () => void) {
    this.#process = process;
    this.#dueUs = dueUs;
    this.#fire = fire;
    this.#event = this.#arm();
  }

  clear(): void {
    this.#event.cancel();
  }

  #arm(): Event {
    return this.#process.alarm(this.#dueUs, () => {
      // The machine slept in the meantime.
      if (this.#process.leftUs(this.#dueUs) > 1) this.#event = this.#arm();
      else {
        this.#process.late(-this.#process.leftUs(this.#dueUs));
        this.#fire();
      }
    });
  }
}
