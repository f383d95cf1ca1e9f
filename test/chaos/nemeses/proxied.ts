import type { Direction, TcpProxy } from '../../support/proxy.ts';
import type { Nemesis } from '../nemesis.ts';
import type { Seat } from '../stage.ts';
import { seatWith } from './claims.ts';
import { untilMet } from './met.ts';

/** The way of an owner to the store, or to its fence. */
export type Way = 'store' | 'fence';

export const proxyOf = (way: Way) => (seat: Seat) => (way === 'store' ? seat.redisProxy : seat.fenceProxy);

interface Fault {
  readonly name: string;
  readonly way: Way;
  /** In leases: how long at least, and how much longer at most. */
  readonly forTtls: readonly [least: number, more: number];
  begin(proxy: TcpProxy, random: () => number): Going;
}

export interface Going {
  /** How much it has met. */
  met(): number;
  end(): void;
}

/** A fault of the way between an owner and a server. */
export function onTheWay({ name, way, forTtls: [least, more], begin }: Fault): Nemesis {
  return {
    name,
    async strike(stage) {
      // Who has no lease says nothing to its fence.
      const found = await seatWith(stage, proxyOf(way), { isOwner: way === 'fence' });
      if (found === null) return null;
      const { seat, part: proxy, claimed } = found;
      const going = begin(proxy, stage.random);
      return {
        targets: [seat.life],
        forMs: stage.ttlMs * (least + more * stage.random()),
        async heal() {
          const effect = await untilMet(going.met);
          going.end();
          claimed[Symbol.dispose]();
          return effect;
        },
      };
    },
  };
}

/** What comes is dropped. What follows would make no sense on the same connection, so it ends with a reset. */
export function dropped(name: string, way: Way, ...directions: Direction[]): Nemesis {
  return onTheWay({
    name,
    way,
    forTtls: [1.2, 1],
    begin(proxy) {
      const before = proxy.counters.lostBytes;
      proxy.swallow(...directions);
      return {
        met: () => proxy.counters.lostBytes - before,
        end() {
          proxy.cut('reset');
          proxy.pass();
        },
      };
    },
  });
}

/** What comes is kept, and arrives in the end: a partition that heals, as TCP shows it. */
export function held(name: string, way: Way, ...directions: Direction[]): Nemesis {
  return onTheWay({
    name,
    way,
    forTtls: [1.2, 1],
    begin(proxy) {
      const before = proxy.counters.heldBytes;
      proxy.hold(...directions);
      return { met: () => proxy.counters.heldBytes - before, end: () => proxy.pass() };
    },
  });
}
