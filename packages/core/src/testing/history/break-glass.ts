import { isShut } from './book.ts';
import { excuseFor } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { Act } from './history.ts';
import { inTime, type Call, type View } from './view.ts';

/** What people do to a lease that is not theirs. */

export const forceSealsFirst: Invariant = {
  id: 'S12',
  rule: 'a release by force seals the fence first, and what is granted after it has a token above the seal',
  breaches: (view) =>
    view.callsTo('force').flatMap((force) => (force.end?.phase === 'ok' ? unsealed(view, force) : [])),
};

function unsealed(view: View, { invoke, end }: Call): readonly Breach[] {
  const { resource, fencingToken = 0, leaseId } = invoke;
  const unsafe = view
    .struck('unsafe-force')
    .some(({ fromMs, untilMs }) => invoke.atMs >= fromMs && invoke.atMs <= untilMs);
  if (end === undefined || unsafe) return [];
  const breaches: Breach[] = [];
  const tenancy = view.tenancy(leaseId ?? '');
  if (tenancy !== undefined && tenancy.lastToken !== fencingToken) {
    const why = `${leaseId} has the token ${tenancy.lastToken}, and was released by force as ${fencingToken}`;
    breaches.push({ why, events: [tenancy.granted.end, invoke, end] });
  }
  const seals = view
    .callsTo('seal')
    .filter((seal) => seal.invoke.resource === resource && seal.end?.phase === 'ok' && seal.end.atMs <= invoke.atMs);
  const sealed = Math.max(0, ...seals.map((seal) => seal.invoke.fencingToken ?? 0));
  if (sealed < fencingToken) {
    const why = `${resource}#${fencingToken} was released by force while the fence was sealed at ${sealed === 0 ? 'nothing' : sealed}`;
    breaches.push({ why, events: [...seals.map((seal) => seal.invoke), invoke, end] });
  }
  const book = [...view.rows.values()].flat().some((row) => row.resource === resource);
  if (sealed >= fencingToken && book && !isShut(view, invoke.resource, fencingToken, invoke.atMs)) {
    const why = `${resource}#${fencingToken} was released by force, and the book of the fence shows no seal`;
    breaches.push({ why, events: [...seals.map((seal) => seal.invoke), invoke, end] });
  }
  const next = view.leases
    .filter((other) => other.resource === resource && other.granted.invoke.atMs > end.atMs)
    .sort((a, b) => a.granted.invoke.atMs - b.granted.invoke.atMs)[0];
  if (
    next !== undefined &&
    next.fencingToken <= sealed &&
    excuseFor(view, ['data-loss'], { fromMs: invoke.atMs, untilMs: next.granted.end.atMs, resource }) === undefined
  ) {
    const why = `the fence was sealed at ${sealed}, and the next lease has the token ${next.fencingToken}`;
    breaches.push({ why, events: [...seals.map((seal) => seal.invoke), end, next.granted.end] });
  }
  return breaches;
}

const CHANGES: ReadonlySet<Act> = new Set([
  'acquire',
  'adopt',
  'extend',
  'release',
  'cancel',
  'revoke',
  'force',
  'activate',
  'write',
  'seal',
]);
const GIVEN_UP: ReadonlySet<string> = new Set(['orphaned', 'stale-suspect']);

export const diagnosisIsReadOnly: Invariant = {
  id: 'S13',
  rule: 'a diagnosis changes nothing, and calls no lease abandoned that its owner goes on extending',
  breaches: (view) =>
    view.callsTo('diagnose').flatMap(({ invoke, end }) => {
      const breaches: Breach[] = [];
      const changes = view.calls.filter(
        (call) =>
          CHANGES.has(call.invoke.act) &&
          call.invoke.process === invoke.process &&
          inTime(invoke, call.invoke) < 0 &&
          (end === undefined || inTime(call.invoke, end) < 0),
      );
      const [change] = changes;
      if (change !== undefined) {
        const why = `it sent ${change.invoke.act} while it looked`;
        breaches.push({ why, events: [invoke, ...changes.map((call) => call.invoke)] });
      }
      if (end !== undefined && GIVEN_UP.has(end.outcome ?? '')) {
        const lives = view
          .callsTo('extend')
          .find(
            (call) => call.invoke.leaseId === end.leaseId && call.end?.phase === 'ok' && call.invoke.atMs > end.atMs,
          );
        if (lives?.end !== undefined) {
          const why = `${end.leaseId} was called ${end.outcome}, and then extended by its owner`;
          breaches.push({ why, events: [end, lives.invoke, lives.end] });
        }
      }
      return breaches;
    }),
};

export const breakGlassInvariants: readonly Invariant[] = [forceSealsFirst, diagnosisIsReadOnly];
