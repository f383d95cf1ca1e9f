/** What is found of a record that somebody owns. */

import type { LeaseRecord } from '../store/store.ts';
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
  const { resource, fences, owner, connections, marginMs, observation } = facts;
  const who = record.owner;
  const { remainingMs, sinceExtensionMs, elapsedMs } = timesOf(record);
  const ahead = fences.find((fence) => (fence.highest ?? 0) > record.fencingToken);
  if (ahead !== undefined) {
    const why = ahead.sealed
      ? `is sealed at ${ahead.highest}, beyond the token ${record.fencingToken} of ${resource}: somebody has shut its owner out by hand.`
      : `has admitted ${ahead.highest}, beyond the token ${record.fencingToken} of ${resource}: another store has granted it, or this one has lost data.`;
    return found(
      'token-regressed',
      'alarm',
      `Fence ${ahead.name} ${why} What ${who} writes there is refused already.`,
      remainingMs > 0 ? { waitFor: { what: 'the lease to run out', ms: remainingMs } } : { acquire: true },
    );
  }
  if (remainingMs > record.ttlMs) {
    return found(
      'clock-regressed',
      'alarm',
      `${resource} ends later than it can have been set to: the store's clock has gone back. The next call sets it right.`,
      { waitFor: { what: 'the whole ttl', ms: record.ttlMs } },
    );
  }
  const isMoving = observation.state === 'changed' || sinceExtensionMs < record.ttlMs * LATE_PART;
  if (remainingMs > 0) {
    const waitFor = { what: 'the lease to run out', ms: remainingMs };
    if (record.revoked) {
      return found(
        'revoked',
        'wait',
        `${who} was asked to let go of ${resource} and is out in ${seconds(remainingMs)} at the latest.`,
        { waitFor },
      );
    }
    if (isMoving) return found('held', 'ok', `${resource} is held by ${who}, which extends it.`);
    const late = `has not extended ${resource} for ${seconds(sinceExtensionMs)}`;
    switch (owner.state) {
      case 'gone':
        return found(
          'orphaned-running',
          'wait',
          `${who} is gone; ${resource} is free for others in ${seconds(remainingMs)}.`,
          { waitFor },
        );
      case 'stopped':
        return found(
          'paused',
          'wait',
          `${who} ${late}: its process is stopped. It loses the lease in ${seconds(remainingMs)}.`,
          { waitFor },
        );
      case 'alive':
        return connections === 0
          ? found(
              'partitioned',
              'wait',
              `${who} ${late}: it lives and has no connection to the store. It loses the lease in ${seconds(remainingMs)}.`,
              { waitFor },
            )
          : found(
              'silent',
              'wait',
              `${who} ${late}, although it lives: a blocked event loop, or a slow store. It loses the lease in ${seconds(remainingMs)}.`,
              { waitFor },
            );
      case 'unverifiable':
        return found(
          'silent',
          'wait',
          `${who} ${late}, and nobody here can tell whether it lives. The lease runs out in ${seconds(remainingMs)}.`,
          { waitFor },
        );
    }
  }
  const past = `${resource} ran out ${seconds(elapsedMs)} ago and nobody has taken it`;
  if (observation.state === 'changed') {
    return found('expired', 'wait', `${past}; the record changed while it was watched: look again.`, { acquire: true });
  }
  if (owner.state === 'alive' || owner.state === 'stopped') {
    return found('expired-alive', 'wait', `${past}. ${who} is ${owner.state}, and has lost it: whoever asks gets it.`, {
      acquire: true,
    });
  }
  const needed = Math.max(marginMs - elapsedMs, unwatchedMs(observation));
  if (!(needed <= 0)) {
    return found('expired', 'wait', `${past}. Whoever asks gets it; nothing has to be released.`, {
      acquire: true,
      waitFor: { what: 'the margin, and to see the record unchanged', ms: needed },
    });
  }
  if (owner.state === 'gone') {
    return found('orphaned', 'act', `${past}, and ${who} is gone. Whoever asks gets it; it may be released by force.`, {
      acquire: true,
    });
  }
  return isGuarded
    ? found(
        'stale-suspect',
        'act',
        `${past}. Nobody can tell whether ${who} lives; the fence stops it if it does. It may be released by force.`,
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
