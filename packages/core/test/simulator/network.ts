import { Chance } from '../../src/testing/fence/chance.ts';
import type { Actor, World } from './world.ts';

/** What becomes of a message in one direction. */
export type Passage = 'open' | 'lost' | 'held';

export interface Noise {
  /** Of 1000 messages, so many are lost. */
  readonly lost: number;
  /** So many come twice, the second one on another way and so at any time. */
  readonly doubled: number;
  /** So many take another way: they are late, and overtaken. */
  readonly astray: number;
  readonly lateMs: number;
}

const QUIET: Noise = { lost: 0, doubled: 0, astray: 0, lateMs: 0 };

/** On a quiet day. */
const TRIP_US = { least: 100, more: 1500 };

/**
 * The way between a process and a server. Messages of one connection keep their order; those that went another way do not,
 * and neither do those of a connection that was reset.
 */
export class Link {
  /** How many messages met a fault. */
  hits = 0;
  noise: Noise = QUIET;
  /** Every message takes so much longer. */
  slowUs = 0;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #passage: Record<'there' | 'back', Passage> = { there: 'open', back: 'open' };
  readonly #lastUs: Record<'there' | 'back', number> = { there: 0, back: 0 };
  #held: { readonly direction: 'there' | 'back'; readonly actor: Actor | undefined; readonly arrive: () => void }[] =
    [];
  #connection = 0;

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#chance = new Chance(seed);
  }

  /** The connection that messages go over now. */
  get connection(): number {
    return this.#connection;
  }

  set(direction: 'there' | 'back', passage: Passage): void {
    this.#passage[direction] = passage;
  }

  /** What was held comes now, in its order. */
  heal(): void {
    this.#passage.there = 'open';
    this.#passage.back = 'open';
    this.noise = QUIET;
    this.slowUs = 0;
    const held = this.#held;
    this.#held = [];
    for (const { direction, actor, arrive } of held) this.#deliver(direction, this.#world.nowUs, actor, arrive);
  }

  /** Another connection from now on. What was held on the old one arrives within `strayMs`, and its answers do not. */
  reset(strayMs: number): void {
    this.#connection++;
    this.#lastUs.there = 0;
    this.#lastUs.back = 0;
    const held = this.#held;
    this.#held = [];
    for (const { direction, arrive } of held) {
      if (direction === 'back') continue;
      this.#world.at(this.#world.nowUs + this.#chance.below(strayMs * 1000), undefined, arrive);
    }
    this.heal();
  }

  /** False if it is known to be lost. */
  send(direction: 'there' | 'back', fromUs: number, actor: Actor | undefined, arrive: () => void): boolean {
    // Of a process that is ahead of the world's time: what becomes of the message is decided when it leaves.
    if (fromUs > this.#world.nowUs) {
      this.#world.at(fromUs, undefined, () => void this.send(direction, this.#world.nowUs, actor, arrive));
      return true;
    }
    const { lost, doubled, astray, lateMs } = this.noise;
    const passage = this.#passage[direction];
    const fate = this.noise === QUIET ? 1000 : this.#chance.below(1000);
    if (passage === 'lost' || fate < lost) {
      this.hits++;
      return false;
    }
    if (passage === 'held') {
      this.hits++;
      this.#held.push({ direction, actor, arrive });
      return true;
    }
    if (fate < lost + doubled) {
      this.hits++;
      this.#world.at(fromUs + this.#tripUs() + this.#chance.below(lateMs * 1000 + 1), actor, arrive);
    } else if (fate < lost + doubled + astray) {
      this.hits++;
      this.#world.at(fromUs + this.#tripUs() + this.#chance.below(lateMs * 1000 + 1), actor, arrive);
      return true;
    }
    this.#deliver(direction, fromUs, actor, arrive);
    return true;
  }

  #deliver(direction: 'there' | 'back', fromUs: number, actor: Actor | undefined, arrive: () => void): void {
    const atUs = Math.max(fromUs + this.#tripUs(), this.#lastUs[direction] + 1);
    this.#lastUs[direction] = atUs;
    this.#world.at(atUs, actor, arrive);
  }

  #tripUs(): number {
    if (this.slowUs > 0) this.hits++;
    return TRIP_US.least + this.#chance.below(TRIP_US.more) + this.slowUs;
  }
}
