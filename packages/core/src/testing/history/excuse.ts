import type { KnownNemesis } from './history.ts';
import type { Nemesis, View } from './view.ts';

/** What a fault would have to have met to be the reason. */
export interface Scope {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly resource?: string | undefined;
  /** The processes that it is about; any, if it is about the store. */
  readonly processes?: readonly string[] | undefined;
}

/** Faults of these kinds that were there within the span, and struck whom or what it is about. */
export function metBy(view: View, kinds: readonly KnownNemesis[], scope: Scope): readonly Nemesis[] {
  const { fromMs, untilMs, resource, processes } = scope;
  return view.struck(...kinds).filter((nemesis) => {
    const { target, resource: struck } = nemesis.begin;
    if (nemesis.fromMs > untilMs || nemesis.untilMs < fromMs) return false;
    if (struck !== undefined && resource !== undefined && struck !== resource) return false;
    return target === undefined || processes === undefined || processes.includes(target);
  });
}

/** Why nothing better can be asked for under such a fault, or undefined. */
export function excuseFor(view: View, kinds: readonly KnownNemesis[], scope: Scope): string | undefined {
  const [struck] = metBy(view, kinds, scope);
  return struck === undefined ? undefined : `${struck.begin.nemesis} struck`;
}

/**
 * Why a lease may have run out early by the store's clock, or undefined. A clock that was set back, and a store that has lost
 * what it went by, go on from each other later than either.
 */
export function clockExcuse(view: View, scope: Scope): string | undefined {
  const before = { ...scope, fromMs: -Infinity };
  const isLasting = metBy(view, ['data-loss'], before).length > 0;
  return (
    excuseFor(view, ['store-clock'], scope) ?? (isLasting ? excuseFor(view, ['store-clock-back'], before) : undefined)
  );
}

/** Of a process, how long it could do nothing between two instants. Milliseconds. */
export function stoppedMs(view: View, process: string, fromMs: number, untilMs: number): number {
  return metBy(view, ['pause', 'frozen-clocks'], { fromMs, untilMs, processes: [process] })
    .filter(({ begin }) => begin.target === process)
    .reduce((sum, stop) => sum + Math.max(0, Math.min(untilMs, stop.untilMs) - Math.max(fromMs, stop.fromMs)), 0);
}
