/** What is found of a record that somebody owns. */

import type { LeaseRecord } from '../store/store.ts';
import type { OwnerState } from './probe.ts';
import { plain } from './probes/words.ts';
import type { Facts, Observation, Severity, Verdict, VerdictCode } from './verdict.ts';

/** An owner that has missed two extensions, at the refresh of a third of the ttl, is late beyond chance. */
const LATE_PART = 2 / 3;

export interface Times {
  readonly remainingMs: number;
  readonly sinceExtensionMs: number;
  /** How long it has run out; 0 while it runs. */
  readonly elapsedMs: number;
}

export function timesOf({ expiresUs, extendedUs, nowUs }: LeaseRecord): Times {
  return {
    remainingMs: Math.max(0, (expiresUs - nowUs) / 1000),
    sinceExtensionMs: Math.max(0, (nowUs - extendedUs) / 1000),
    elapsedMs: Math.max(0, (nowUs - expiresUs) / 1000),
  };
}

export interface Found {
  readonly code: VerdictCode;
  readonly severity: Severity;
  readonly sentence: string;
  readonly acquire: boolean;
  readonly waitFor: Verdict['waitFor'];
}

export function found(
  code: VerdictCode,
  severity: Severity,
  sentence: string,
  { acquire = false, waitFor = null }: { readonly acquire?: boolean; readonly waitFor?: Verdict['waitFor'] } = {},
): Found {
  return { code, severity, sentence, acquire, waitFor };
}

export function findOwned(facts: Facts, record: LeaseRecord, isGuarded: boolean): Found {
  const { fences, loggedSeals, resource } = facts;
  const { remainingMs } = timesOf(record);
  const ahead = fences.filter(({ highest }) => (highest ?? 0) > record.fencingToken);
  const riddle = ahead.find(({ sealed, highest }) => !sealed || !loggedSeals.includes(highest ?? 0));
  if (riddle !== undefined) {
    const why = riddle.sealed
      ? `is sealed at ${riddle.highest}, beyond the token ${record.fencingToken} of ${resource}, and the log of the resource does not say by whom: somebody has shut its owner out by hand.`
      : `has admitted ${riddle.highest}, beyond the token ${record.fencingToken} of ${resource}: another store has granted it, or this one has lost data.`;
    return found(
      'token-regressed',
      'alarm',
      `Fence ${riddle.name} ${why} ${riddle.enforcing ? `What ${plain(record.owner)} writes there is refused already.` : 'It is not enforcing: what is written there may be admitted.'}`,
      remainingMs > 0 ? { waitFor: { what: 'the lease to run out', ms: remainingMs } } : { acquire: true },
    );
  }
  const its = findKnown(facts, record, isGuarded);
  // What its owner does is the same as without the seal, and so is what comes next. One that is not enforcing shuts out nobody.
  const shut = ahead.filter(({ enforcing }) => enforcing);
  if (shut.length === 0) return its;
  const names = shut.map(({ name }) => name).join(', ');
  const seal = `It is shut out of ${names}: sealed by hand, as the log of the resource tells; the next owner is admitted as always.`;
  return { ...its, sentence: `${its.sentence} ${seal}` };
}

/** Nothing at the fences is a riddle. */
function findKnown(facts: Facts, record: LeaseRecord, isGuarded: boolean): Found {
  const { remainingMs } = timesOf(record);
  if (remainingMs > record.ttlMs) {
    return found(
      'clock-regressed',
      'alarm',
      `${facts.resource} ends later than it can have been set to: the store's clock has gone back. The next call sets it right.`,
      { waitFor: { what: 'the whole ttl', ms: record.ttlMs } },
    );
  }
  return remainingMs > 0 ? findRunning(facts, record) : findOver(facts, record, isGuarded);
}

function findRunning({ resource, owner, connections, observation }: Facts, record: LeaseRecord): Found {
  const who = plain(record.owner);
  const { remainingMs, sinceExtensionMs } = timesOf(record);
  const waitFor = { what: 'the lease to run out', ms: remainingMs };
  if (record.revoked) {
    const stands = owner.state === 'stopped' ? ' Its process is stopped, and cannot answer.' : '';
    return found(
      'revoked',
      'wait',
      `${who} was asked to let go of ${resource}.${stands} Its lease is over in ${seconds(remainingMs)} at the latest; its process may go on after that.`,
      { waitFor },
    );
  }
  const isSeen = observation.state === 'changed';
  // However short the extension is ago: who stands still, or is gone, extends nothing more.
  if (owner.state === 'stopped' && !isSeen) {
    return found(
      'paused',
      'wait',
      `The process of ${who} is stopped, and has not extended ${resource} for ${seconds(sinceExtensionMs)}. It loses the lease in ${seconds(remainingMs)} unless it goes on.`,
      { waitFor },
    );
  }
  if (owner.state === 'gone' && !isSeen) {
    const sentence = `The process of ${who} is gone; ${resource} is free for others in ${seconds(remainingMs)}.`;
    return found('orphaned-running', 'wait', sentence, { waitFor });
  }
  if (isSeen || sinceExtensionMs < record.ttlMs * LATE_PART) {
    const ago = `${record.extensions > 0 ? 'extended' : 'acquired'} ${seconds(sinceExtensionMs)} ago`;
    const kept = isSeen ? 'extended or taken while it was watched' : ago;
    return found('held', 'ok', `${resource} is held by ${who}: ${HELD[owner.state](kept)}.`);
  }
  const late = `has not extended ${resource} for ${seconds(sinceExtensionMs)}`;
  const loses = `It loses the lease in ${seconds(remainingMs)}.`;
  if (owner.state === 'unverifiable') {
    const sentence = `${who} ${late}, and nobody here can tell whether it lives. The lease runs out in ${seconds(remainingMs)}.`;
    return found('silent', 'wait', sentence, { waitFor });
  }
  return connections === 0
    ? found('partitioned', 'wait', `${who} ${late}: it lives and has no connection to the store. ${loses}`, { waitFor })
    : found('silent', 'wait', `${who} ${late}, although it lives: a blocked event loop, or a slow store. ${loses}`, {
        waitFor,
      });
}

/** No more than is known: that a lease is extended does not show that its run gets on. */
const HELD: Readonly<Record<OwnerState, (kept: string) => string>> = {
  alive: (kept) => `alive, and ${kept}`,
  gone: (kept) => `${kept}, but its process is gone`,
  stopped: (kept) => `${kept}, but its process is stopped`,
  unverifiable: (kept) => `${kept}; its process cannot be seen from here`,
};

function findOver(facts: Facts, record: LeaseRecord, isGuarded: boolean): Found {
  const { resource, owner, marginMs, observation } = facts;
  const who = plain(record.owner);
  const { elapsedMs } = timesOf(record);
  const past = `${resource} ran out ${seconds(elapsedMs)} ago and nobody has taken it`;
  if (observation.state === 'changed') {
    return found('expired', 'wait', `${past}; the record changed while it was watched: look again.`, { acquire: true });
  }
  if (owner.state === 'alive' || owner.state === 'stopped') {
    const loose = isGuarded ? '' : `, and no fence that was named stops what ${who} may still write`;
    return found(
      'expired-alive',
      'wait',
      `${past}. ${who} is ${owner.state}, and has lost it: whoever asks gets it${loose}.`,
      { acquire: true },
    );
  }
  const needed = Math.max(marginMs - elapsedMs, unwatchedMs(observation));
  if (!(needed <= 0)) {
    return found('expired', 'wait', `${past}. Whoever asks gets it; nothing has to be released.`, {
      acquire: true,
      waitFor: { what: 'the margin, and to see the record unchanged', ms: needed },
    });
  }
  if (owner.state === 'gone') {
    return found('orphaned', 'act', `${past}, and ${who} is gone. Whoever asks gets it.`, { acquire: true });
  }
  return isGuarded
    ? found(
        'stale-suspect',
        'act',
        `${past}. Nobody can tell whether ${who} lives; the fence stops it if it does, once the next owner has written there. Whoever asks gets it.`,
        { acquire: true },
      )
    : found(
        'stale-unfenced',
        'act',
        `${past}. Nobody can tell whether ${who} lives, and no fence would stop it. An ordinary acquire takes it over; releasing it by force can make two owners.`,
        { acquire: true },
      );
}

/** How much longer it must be seen unchanged. */
export function unwatchedMs({ state, forMs, neededMs }: Observation): number {
  return Math.max(0, state === 'unchanged' ? neededMs - forMs : neededMs);
}

export function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
}
