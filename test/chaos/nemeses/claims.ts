import type { Seat, Stage } from '../stage.ts';

const claimed = new WeakSet<object>();

/** What two faults at once would make nonsense of, for one of them. Null if another one has it. */
export function claim(thing: object): Disposable | null {
  if (claimed.has(thing)) return null;
  claimed.add(thing);
  return { [Symbol.dispose]: () => void claimed.delete(thing) };
}

/** A seat at work, most often one that has a lease, of whose part `pick` no other fault makes use. `isOwner`: only one that has. */
export async function seatWith<Part extends object>(
  stage: Stage,
  pick: (seat: Seat) => Part | undefined,
  { isOwner = false }: { readonly isOwner?: boolean } = {},
): Promise<{ readonly seat: Seat; readonly part: Part; readonly claimed: Disposable } | null> {
  const owner = isOwner || stage.random() < 0.8 ? ((await stage.owner())?.seat ?? null) : null;
  const from = Math.floor(stage.random() * stage.seats.length);
  const others = stage.seats.map((_, index) => stage.seats[(from + index) % stage.seats.length]);
  for (const seat of isOwner ? [owner] : [owner, ...others]) {
    if (seat === null || seat === undefined || !seat.isAlive) continue;
    const part = pick(seat);
    const own = part === undefined ? null : claim(part);
    if (part !== undefined && own !== null) return { seat, part, claimed: own };
  }
  return null;
}
