import { clockExcuse, excuseFor, type Scope } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { GrantRow, HistoryLine } from './history.ts';
import { answeredOtherwise, grantedOver, grantsOutOfOrder, tokenExcuse } from './tokens.ts';
import { groupBy, type Call, type Tenancy, type View } from './view.ts';

/** What the store made of what it was asked. */

const ENDS_OTHERS: ReadonlySet<string> = new Set(['release', 'cancel']);

export const releaseIsOwn: Invariant = {
  id: 'S8',
  rule: "the release of one leaseId never ends another's lease",
  breaches: (view) => [...view.tenancies.flatMap((tenancy) => foreignReleases(view, tenancy)), ...strangers(view)],
};

/** Who releases what it never asked for. Of a ticket an adopter may take the old leaseId back, which is no release. */
function strangers(view: View): readonly Breach[] {
  return view.callsTo('release').flatMap(({ invoke, end }) => {
    const { process, leaseId } = invoke;
    const owner = view.tenancy(leaseId ?? '')?.granted;
    if (owner === undefined || owner.invoke.process === process) return [];
    const isAsked = requests(view).some((call) => call.invoke.leaseId === leaseId && call.invoke.process === process);
    if (isAsked) return [];
    const events = [owner.end, invoke, ...(end === undefined ? [] : [end])];
    return [{ why: `${process} released ${leaseId}, which it had never asked for`, events }];
  });
}

/** A lease that the store called lost before it can have run out, with a release of another leaseId since. */
function foreignReleases(view: View, tenancy: Tenancy): readonly Breach[] {
  const { leaseId, resource, confirmations, terminal } = tenancy;
  const refused = view.callsTo('extend').find(
    ({ invoke, end }) =>
      invoke.leaseId === leaseId &&
      end?.phase === 'fail' &&
      end.outcome !== 'revoked' &&
      // That it could not be asked is no word of the store's.
      end.outcome !== 'STORE_UNAVAILABLE',
  );
  if (refused?.end === undefined || (terminal !== undefined && terminal.atMs < refused.end.atMs)) return [];
  const last = confirmations.findLast(({ end }) => end.atMs <= refused.invoke.atMs);
  if (last === undefined) return [];
  const { ttlMs = 0 } = last.invoke;
  const givenMs = Math.min(ttlMs, last.end.remainingMs ?? ttlMs) * (1 - view.settings.clockDrift);
  const runsOutMs = (last.end.sentMs ?? last.invoke.atMs) + givenMs;
  if (refused.end.atMs >= runsOutMs) return [];
  const sinceMs = tenancy.granted.invoke.atMs;
  const others = view.calls.filter(
    ({ invoke, end }) =>
      invoke.resource === resource &&
      (end?.atMs ?? Infinity) >= sinceMs &&
      invoke.atMs <= (refused.end?.atMs ?? 0) &&
      (invoke.leaseId !== leaseId || invoke.act === 'force'),
  );
  const isExplained = others.some(
    ({ invoke }) =>
      (invoke.act === 'force' && invoke.leaseId === leaseId) || (invoke.act === 'adopt' && invoke.from === leaseId),
  );
  const releases = others.filter(({ invoke }) => ENDS_OTHERS.has(invoke.act));
  if (isExplained || releases.length === 0) return [];
  const why = `${leaseId} had until ${runsOutMs.toFixed(3)} ms and was called ${refused.end.outcome} before, after others had released`;
  const span = { fromMs: sinceMs, untilMs: refused.end.atMs, resource };
  return [
    {
      why,
      events: [last.invoke, last.end, ...releases.map(({ invoke }) => invoke), refused.invoke, refused.end],
      excuse: excuseFor(view, ['data-loss', 'unsafe-force'], span) ?? clockExcuse(view, span),
    },
  ];
}

export const lostIsNotExtended: Invariant = {
  id: 'S9',
  rule: 'a lease is not extended once another one with a larger token was given out, nor without the word of the store on it',
  breaches: (view) => [...revivals(view), ...grantedOver(view), ...baseless(view)],
};

function revivals(view: View): readonly Breach[] {
  const byResource = groupBy(view.leases, ({ resource }) => resource);
  return view.callsTo('extend').flatMap(({ invoke, end }) => {
    const tenancy = view.tenancy(invoke.leaseId ?? '');
    if (end?.phase !== 'ok' || tenancy === undefined) return [];
    const successor = byResource
      .get(tenancy.resource)
      ?.find(
        (other) =>
          other.leaseId !== tenancy.leaseId &&
          other.fencingToken > tenancy.fencingToken &&
          other.granted.end.atMs > tenancy.granted.end.atMs &&
          other.granted.end.atMs < invoke.atMs,
      );
    if (successor === undefined) return [];
    const why = `${tenancy.leaseId} was extended although ${successor.leaseId} had been granted`;
    return [{ why, events: [tenancy.granted.end, successor.granted.end, invoke, end] }];
  });
}

/** As when the answers of a batch are dealt to the wrong leases. */
function baseless(view: View): readonly Breach[] {
  return view.leases.flatMap(({ leaseId, process }) => {
    let answers = 0;
    return view.linesOf(leaseId).flatMap((line) => {
      if (line.process !== process) return [];
      if (line.act === 'extend' && line.phase === 'ok') answers++;
      if (line.act !== 'extended' || answers-- > 0) return [];
      return [{ why: `${leaseId} was taken for extended, and the store had not said so`, events: [line] }];
    });
  });
}

export const leaseIdIsGrantedOnce: Invariant = {
  id: 'S10',
  rule: 'a leaseId is granted once, with one token, however often it is asked for',
  breaches: (view) => [...answeredTwice(view), ...grantedTwice(view), ...answeredOtherwise(view)],
};

function answeredTwice(view: View): readonly Breach[] {
  const answers = requests(view).filter(({ end }) => end?.phase === 'ok');
  return [...groupBy(answers, ({ invoke }) => invoke.leaseId).entries()].flatMap(([leaseId, calls]) => {
    const tokens = new Set(calls.map(({ end }) => end?.fencingToken));
    if (tokens.size < 2) return [];
    const events = calls.flatMap(({ invoke, end }) => (end === undefined ? [invoke] : [invoke, end]));
    const [first] = calls;
    const span = {
      fromMs: first?.invoke.atMs ?? 0,
      untilMs: calls.at(-1)?.end?.atMs ?? view.endMs,
      resource: first?.invoke.resource,
    };
    // Asked again after a loss, or when its lease was over, nobody having heard of the first one.
    const excuse = excuseFor(view, ['data-loss'], span);
    return [{ why: `${leaseId} was answered with ${tokens.size} tokens`, events, excuse }];
  });
}

/**
 * Not as long as the store has given it to nobody else since: it knows the leaseId, also when its lease is over. After that
 * a request that had no answer may still come, or be sent again by whoever wants it still: of the first grant nobody ever
 * knew then.
 */
function grantedTwice(view: View): readonly Breach[] {
  const breaches: Breach[] = [];
  for (const rows of groupBy(view.grants, ({ resource }) => resource).values()) {
    const first = new Map<string, { readonly row: GrantRow; readonly at: number }>();
    for (const [at, row] of rows.entries()) {
      const { leaseId } = row;
      const before = first.get(leaseId);
      const isForgotten = before !== undefined && before.at < at - 1;
      if (before !== undefined && !(isForgotten && hasUnanswered(view, leaseId))) {
        const span = { ...about(view, leaseId), fromMs: before.row.atMs, untilMs: row.atMs };
        const excuse = excuseFor(view, ['data-loss'], span) ?? clockExcuse(view, span);
        // A copy may come at any time.
        const late = isForgotten ? excuseFor(view, ['duplication'], { ...span, fromMs: -Infinity }) : undefined;
        breaches.push({ why: `${leaseId} was granted 2 times`, events: [before.row, row], excuse: excuse ?? late });
      }
      first.set(leaseId, { row, at });
    }
  }
  return breaches;
}

/** Whose and what a leaseId is. */
function about(view: View, leaseId: string | undefined): Pick<Scope, 'resource' | 'processes'> {
  const asked = requests(view).find(({ invoke }) => invoke.leaseId === leaseId)?.invoke;
  return { resource: asked?.resource, processes: asked && [asked.process] };
}

export const ghostIsContained: Invariant = {
  id: 'S11',
  rule: 'a leaseId whose acquisition was given up does nothing, and once it was taken back, or never sent, it is never granted',
  breaches: (view) => [...ghostActs(view), ...ghostGrants(view), ...unsentGrants(view)],
};

function ghostActs(view: View): readonly Breach[] {
  const asked = groupBy(requests(view), ({ invoke }) => invoke.leaseId ?? '');
  return [...asked].flatMap(([leaseId, calls]) => {
    const given = calls.find(({ end }) => end?.phase === 'ok');
    const acts = view
      .linesOf(leaseId)
      .filter(
        (line) =>
          (line.act === 'activate' || line.act === 'write') &&
          line.phase === 'invoke' &&
          (given?.end === undefined || line.atMs < given.end.atMs) &&
          !isTrial(view, line),
      );
    const events = calls.flatMap(({ invoke, end }) => (end === undefined ? [invoke] : [invoke, end]));
    return acts.length === 0 ? [] : [{ why: `${leaseId} acted without a lease`, events: [...events, ...acts] }];
  });
}

/** Whoever has sealed the fence above a token tries whether it is refused. */
export function isTrial(view: View, { act, process, resource, atMs, fencingToken = 0 }: HistoryLine): boolean {
  if (act !== 'activate') return false;
  return view.callsTo('seal').some(({ invoke, end }) => {
    const isAbove = invoke.resource === resource && (invoke.fencingToken ?? 0) > fencingToken;
    return isAbove && invoke.process === process && end?.phase === 'ok' && end.atMs <= atMs;
  });
}

function ghostGrants(view: View): readonly Breach[] {
  return view.callsTo('cancel').flatMap(({ invoke, end }) => {
    if (end?.phase !== 'ok') return [];
    const late = view.grants.find(({ leaseId, atMs }) => leaseId === invoke.leaseId && atMs > end.atMs);
    if (late === undefined) return [];
    const span = { ...about(view, invoke.leaseId), fromMs: invoke.atMs, untilMs: late.atMs };
    // A leaseId that had all its answers leaves no tombstone: another copy of what was answered is not expected.
    const copied = hasUnanswered(view, invoke.leaseId)
      ? undefined
      : excuseFor(view, ['duplication'], { ...span, fromMs: -Infinity });
    // With the data the tombstone is lost, and a clock that is set forward ends it.
    const excuse = copied ?? excuseFor(view, ['data-loss'], span) ?? clockExcuse(view, span);
    const why = `${invoke.leaseId} was granted after it had been taken back`;
    return [{ why, events: [invoke, end, late], excuse }];
  });
}

/** Whoever is told that nothing was sent takes nothing back: a client that sends it later leaves a lease that nobody has. */
function unsentGrants(view: View): readonly Breach[] {
  const asked = groupBy(requests(view), ({ invoke }) => invoke.leaseId ?? '');
  return view.grants.flatMap((grant) => {
    const calls = asked.get(grant.leaseId) ?? [];
    if (calls.some(({ end }) => end?.phase !== 'fail' || end.outcome !== 'STORE_UNAVAILABLE')) return [];
    const events = calls.flatMap(({ invoke, end }) => (end === undefined ? [invoke] : [invoke, end]));
    return [{ why: `${grant.leaseId} was granted, and nobody had sent for it`, events: [...events, grant] }];
  });
}

function requests(view: View): readonly Call[] {
  return [...view.callsTo('acquire'), ...view.callsTo('adopt')];
}

function hasUnanswered(view: View, leaseId: string | undefined): boolean {
  return requests(view).some(
    ({ invoke, end }) => invoke.leaseId === leaseId && (end === undefined || end.phase === 'info'),
  );
}

export const tokensGrow: Invariant = {
  id: 'S14',
  rule: 'who acquires later has the larger token, and no token is given out twice',
  breaches: (view) => [
    ...[...groupBy(view.tenancies, ({ resource }) => resource).values()].flatMap((same) => sharedTokens(view, same)),
    ...[...groupBy(view.leases, ({ resource }) => resource).values()].flatMap((leases) => outOfOrder(view, leases)),
    ...view.leases.flatMap((lease) => turnsOf(view, lease)),
    ...grantsOutOfOrder(view),
  ],
};

/** Of a lease that may linger: each who has it in turn has a token of its own, of those that were reserved. */
function turnsOf(view: View, { leaseId, process, fencingToken, lastToken }: Tenancy): readonly Breach[] {
  if (lastToken === fencingToken) return [];
  const said = view.linesOf(leaseId).filter((line) => line.act === 'acquired' && line.process === process);
  const outside = said.filter(({ fencingToken: token = 0 }) => token < fencingToken || token > lastToken);
  const breaches: Breach[] = [];
  if (outside.length > 0) {
    breaches.push({ why: `of ${leaseId} ${fencingToken} to ${lastToken} were reserved`, events: outside });
  }
  for (const [index, line] of said.entries()) {
    const before = said[index - 1];
    if (before === undefined || (line.fencingToken ?? 0) > (before.fencingToken ?? 0)) continue;
    const why = `who had ${leaseId} next had the token ${line.fencingToken}, after ${before.fencingToken}`;
    breaches.push({ why, events: [before, line] });
  }
  return breaches;
}

function showing(a: Tenancy, b: Tenancy): readonly HistoryLine[] {
  return [a.granted.invoke, a.granted.end, b.granted.invoke, b.granted.end];
}

/** Of the two that are compared. */
function tokensExcuse(view: View, a: Tenancy, b: Tenancy): string | undefined {
  const fromMs = Math.min(a.granted.invoke.atMs, b.granted.invoke.atMs);
  const untilMs = Math.max(a.granted.end.atMs, b.granted.end.atMs);
  return tokenExcuse(view, { fromMs, untilMs, resource: a.resource });
}

function sharedTokens(view: View, tenancies: readonly Tenancy[]): readonly Breach[] {
  const breaches: Breach[] = [];
  for (const same of groupBy(tenancies, ({ fencingToken }) => fencingToken).values()) {
    const [one, two] = same;
    if (one === undefined || two === undefined) continue;
    breaches.push({
      why: `${one.leaseId} and ${two.leaseId} have the token ${one.fencingToken}`,
      events: showing(one, two),
      excuse: tokensExcuse(view, one, two),
    });
  }
  return breaches;
}

/** With the data what was reserved is lost: then it is those tokens that somebody has had. */
function highestOf(view: View, { leaseId, lastToken }: Tenancy): number {
  if (view.struck('data-loss').length === 0) return lastToken;
  return Math.max(...view.holdersOf(leaseId).map(({ fencingToken }) => fencingToken));
}

function outOfOrder(view: View, leases: readonly Tenancy[]): readonly Breach[] {
  const breaches: Breach[] = [];
  const byEnd = [...leases].sort((a, b) => a.granted.end.atMs - b.granted.end.atMs);
  const byInvoke = [...leases].sort((a, b) => a.granted.invoke.atMs - b.granted.invoke.atMs);
  let highest: Tenancy | undefined;
  let next = 0;
  for (const tenancy of byInvoke) {
    for (; next < byEnd.length; next++) {
      const earlier = byEnd[next] as Tenancy;
      if (earlier.granted.end.atMs >= tenancy.granted.invoke.atMs) break;
      if (highest === undefined || highestOf(view, earlier) > highestOf(view, highest)) highest = earlier;
    }
    if (highest !== undefined && isBelow(view, tenancy, highest)) {
      const why = `${tenancy.leaseId} was asked for after ${highest.leaseId} had been granted, and has the smaller token`;
      breaches.push({ why, events: showing(highest, tenancy), excuse: tokensExcuse(view, highest, tenancy) });
    }
  }
  return breaches;
}

/** The same token is found in another way, if it is not one that is only reserved. */
function isBelow(view: View, { fencingToken }: Tenancy, earlier: Tenancy): boolean {
  const highest = highestOf(view, earlier);
  return fencingToken < highest || (fencingToken === highest && fencingToken !== earlier.fencingToken);
}

export const storeInvariants: readonly Invariant[] = [
  releaseIsOwn,
  lostIsNotExtended,
  leaseIdIsGrantedOnce,
  ghostIsContained,
  tokensGrow,
];
