import { clockExcuse, excuseFor, type Scope } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import { grantedWhileTrusted } from './tokens.ts';
import { groupBy, type Tenancy, type View } from './view.ts';

/** What an owner does with the leases that it has. */

/** Until when the answers that had come by then let the owner trust its lease. */
function trustedUntilMs(view: View, { confirmations }: Tenancy, atMs: number): number {
  let deadlineMs = -Infinity;
  for (const confirmation of confirmations) {
    if (confirmation.end.atMs > atMs) break;
    if (deadlineMs !== -Infinity && confirmation.end.atMs > deadlineMs) break;
    deadlineMs = Math.max(deadlineMs, view.deadlineOf(confirmation));
  }
  return deadlineMs;
}

export const writeIsGated: Invariant = {
  id: 'S6',
  rule: 'a write begins only while its lease may be trusted, counted from before the request that confirmed it',
  breaches: (view) =>
    view.callsTo('write').flatMap(({ invoke }) => {
      const { leaseId = '', fencingToken, atMs: sentMs, checkedMs: atMs = sentMs, delegated } = invoke;
      const tenancy = view.tenancy(leaseId, fencingToken);
      if (delegated === true || tenancy === undefined) return [];
      const deadlineMs = trustedUntilMs(view, tenancy, atMs) + view.settings.sleepGrainMs;
      if (atMs < deadlineMs) return [];
      const last = tenancy.confirmations.findLast(({ end }) => end.atMs <= atMs);
      const why = `the lease could be trusted until ${deadlineMs.toFixed(3)} ms, and the write began ${(atMs - deadlineMs).toFixed(3)} ms later`;
      const span = { fromMs: tenancy.granted.invoke.atMs, untilMs: sentMs, processes: [tenancy.process] };
      const excuse = excuseFor(view, ['frozen-clocks'], span);
      return [{ why, events: last === undefined ? [invoke] : [last.invoke, last.end, invoke], excuse }];
    }),
};

/** Of these nothing may begin once the lease is over. */
function needsLease({ act, phase, delegated }: HistoryLine): boolean {
  if (act === 'extended') return true;
  return (act === 'extend' || act === 'activate' || act === 'write') && phase === 'invoke' && delegated !== true;
}

export const lossIsFinal: Invariant = {
  id: 'S7',
  rule: 'a lease that was lost, released or handed over is over: nothing is begun with it, and it ends once',
  breaches: (view) => view.tenancies.flatMap((tenancy) => endingsOf(view, tenancy)),
};

function endingsOf(view: View, tenancy: Tenancy): readonly Breach[] {
  const { leaseId, process, lines: own, terminal: over } = tenancy;
  const breaches: Breach[] = [];
  if (over !== undefined) {
    const after = own
      .slice(own.indexOf(over) + 1)
      .filter((line) => needsLease(line) && (line.checkedMs ?? line.atMs) >= over.atMs);
    const [first] = after;
    if (first !== undefined) {
      breaches.push({ why: `${leaseId} was over, and then came ${first.act}`, events: [over, ...after] });
    }
  }
  const ends = own.filter(({ act }) => act === 'lost' || act === 'released' || act === 'handed-over');
  if (ends.length > 1) breaches.push({ why: `${leaseId} ended ${ends.length} times`, events: ends });
  const acquired = own.find(({ act }) => act === 'acquired');
  const isOpen = over === undefined && view.died(process) === undefined;
  if (acquired !== undefined && isOpen && view.beliefEndsMs(tenancy) < view.endMs - view.settings.epsilonMs) {
    const last = own.at(-1) ?? acquired;
    const why = `${leaseId} was neither lost nor released, and could be trusted no longer than ${view.beliefEndsMs(tenancy).toFixed(3)} ms`;
    breaches.push({ why, events: last === acquired ? [acquired] : [acquired, last] });
  }
  return breaches;
}

export const oneTrustingOwner: Invariant = {
  id: 'S15',
  rule: 'no two owners trust their leases of one resource at the same time',
  breaches: (view) => [
    ...overlaps(view),
    ...grantedWhileTrusted(view).map(({ scope, ...breach }) => ({ ...breach, excuse: trustExcuse(view, scope) })),
  ],
};

/** What lets the store give out what somebody trusts. The fence decides then. */
function trustExcuse(view: View, scope: Scope): string | undefined {
  return excuseFor(view, ['data-loss', 'unsafe-force'], scope) ?? clockExcuse(view, scope);
}

/** Pairs of owners who trusted their leases for more than an instant at the same time. */
export function overlaps(view: View): readonly Breach[] {
  const breaches: Breach[] = [];
  for (const tenancies of groupBy(view.tenancies, ({ resource }) => resource).values()) {
    const spans = tenancies
      .map((tenancy) => ({ tenancy, fromMs: tenancy.begins.atMs, untilMs: view.beliefEndsMs(tenancy) }))
      .sort((a, b) => a.fromMs - b.fromMs);
    let widest: (typeof spans)[number] | undefined;
    for (const span of spans) {
      if (widest !== undefined) {
        const sharedMs = Math.min(widest.untilMs, span.untilMs) - span.fromMs;
        if (sharedMs > view.settings.epsilonMs) {
          const confirmed = widest.tenancy.confirmations.findLast(({ end }) => end.atMs <= span.fromMs);
          breaches.push({
            why: `${widest.tenancy.leaseId} and ${span.tenancy.leaseId} were both trusted for ${sharedMs.toFixed(3)} ms`,
            events: [...(confirmed === undefined ? [] : [confirmed.invoke, confirmed.end]), ...endsOf(span.tenancy)],
            excuse: trustExcuse(view, {
              fromMs: widest.tenancy.granted.invoke.atMs,
              untilMs: span.fromMs,
              resource: span.tenancy.resource,
            }),
          });
        }
      }
      if (widest === undefined || span.untilMs > widest.untilMs) widest = span;
    }
  }
  return breaches;
}

function endsOf({ granted, terminal: over }: Tenancy): readonly HistoryLine[] {
  return over === undefined ? [granted.invoke, granted.end] : [granted.invoke, granted.end, over];
}

export const ownerInvariants: readonly Invariant[] = [writeIsGated, lossIsFinal, oneTrustingOwner];
