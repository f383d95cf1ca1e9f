import { isAtWork } from './body.ts';
import { stoppedMs, excuseFor } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { Call, View } from './view.ts';

/** What must come of a revocation. */

export const revokedIsOver: Invariant = {
  id: 'S17',
  rule: 'a lease that was revoked is neither extended nor adopted any more, and its run is told to end once its owner knows',
  breaches: (view) => [
    ...view.callsTo('revoke').flatMap((revoke) => (revoke.end?.phase === 'ok' ? goneOn(view, revoke) : [])),
    ...view.callsTo('extend').flatMap((extend) => (extend.end?.outcome === 'revoked' ? untold(view, extend) : [])),
  ],
};

/** By the word of the store, to whatever was sent after it had confirmed the revocation. */
function goneOn(view: View, { invoke, end }: Call): readonly Breach[] {
  const { leaseId, resource } = invoke;
  if (end === undefined || leaseId === undefined) return [];
  const goesOn = ({ invoke: later, end: answer }: Call): boolean =>
    later.atMs > end.atMs &&
    answer?.phase === 'ok' &&
    (later.act === 'extend' ? later.leaseId === leaseId : later.from === leaseId);
  const next = [...view.callsTo('extend'), ...view.callsTo('adopt')].find(goesOn);
  if (next?.end === undefined || isGrantedSince(view, leaseId, end.atMs, next.invoke.atMs)) return [];
  const excuse = excuseFor(view, ['data-loss'], { fromMs: invoke.atMs, untilMs: next.end.atMs, resource });
  const why = `${leaseId} had been revoked, and then came ${next.invoke.act}`;
  return [{ why, events: [invoke, end, next.invoke, next.end], excuse }];
}

/** Of a leaseId without an answer, which is asked for still, a later grant is another lease. */
function isGrantedSince(view: View, leaseId: string, fromMs: number, untilMs: number): boolean {
  const isSince = ({ atMs }: { readonly atMs: number }): boolean => atMs > fromMs && atMs <= untilMs;
  if (view.grants.length > 0) return view.grants.some((row) => row.leaseId === leaseId && isSince(row));
  return view.linesOf(leaseId).some((line) => line.act === 'acquire' && line.phase === 'ok' && isSince(line));
}

/** The owner was told, and neither ended its run nor the lease. */
function untold(view: View, { invoke, end }: Call): readonly Breach[] {
  const { process, leaseId = '' } = invoke;
  if (end === undefined) return [];
  const own = view.linesOf(leaseId).filter((line) => line.process === process);
  const untilMs = end.atMs + view.settings.slackMs;
  const lateMs = untilMs + stoppedMs(view, process, end.atMs, view.endMs);
  if (lateMs > Math.min(view.endMs, view.died(process)?.atMs ?? Infinity)) return [];
  const isTold = own.some(
    ({ act, phase, atMs }) =>
      atMs <= lateMs &&
      (act === 'cancelled' || act === 'lost' || act === 'handed-over' || (act === 'release' && phase === 'invoke')),
  );
  const again = own.find(({ act, phase, atMs }) => act === 'extend' && phase === 'invoke' && atMs > end.atMs);
  if (again !== undefined) {
    return [{ why: `the owner of ${leaseId} knew that it was revoked, and extended`, events: [invoke, end, again] }];
  }
  if (isTold || !isAtWork(view, { process, leaseId, fromMs: end.atMs, untilMs: lateMs })) return [];
  return [{ why: `the run of ${leaseId} was never told that it is revoked`, events: [invoke, end] }];
}

export const revocationInvariants: readonly Invariant[] = [revokedIsOver];
