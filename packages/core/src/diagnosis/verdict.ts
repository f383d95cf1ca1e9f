/**
 * What evidence about a resource means. Pure: facts in, the first verdict that matches out.
 *
 * The order is that of what must not be overlooked: a store that nobody can rely on comes before anything its record says,
 * and a lease that runs before anything that is known of its owner.
 */

import type { LeaseRecord } from '../store/store.ts';
import { findOwned, found, seconds, timesOf, unwatchedMs, type Found } from './owned.ts';
import type { OwnerFinding } from './probe.ts';
import type { RecordShape } from '../store/evidence.ts';

export type VerdictCode =
  | 'unknown'
  | 'split-brain'
  | 'foreign'
  | 'evicted'
  | 'data-lost'
  | 'free'
  | 'released'
  | 'waiting-turn'
  | 'token-regressed'
  | 'clock-regressed'
  | 'revoked'
  | 'held'
  | 'paused'
  | 'partitioned'
  | 'orphaned-running'
  | 'silent'
  | 'expired'
  | 'expired-alive'
  | 'orphaned'
  | 'stale-suspect'
  | 'stale-unfenced';

/** `ok`: nothing is wrong. `wait`: it rights itself. `act`: somebody may do something. `alarm`: nobody may, before a human understands it. */
export type Severity = 'ok' | 'wait' | 'act' | 'alarm';

export interface FenceFact {
  readonly name: string;
  readonly enforcing: boolean;
  /** The highest token that it has admitted or was sealed with; null for none, undefined if it did not answer. */
  readonly highest: number | null | undefined;
  /** That highest is a seal: nobody was admitted with it. */
  readonly sealed: boolean;
  /** Whose that highest is; undefined if it is nobody's. */
  readonly leaseId?: string | undefined;
}

/** What this process has seen of the record by its own monotonic clock. */
export interface Observation {
  /** `none`: not watched. `changed`: it was extended, released or taken meanwhile. `unchanged`: it was not. */
  readonly state: 'none' | 'changed' | 'unchanged';
  readonly forMs: number;
  /** As long as it must stay unchanged to count: the ttl and the margin. */
  readonly neededMs: number;
}

export interface Facts {
  readonly resource: string;
  /** Why nothing is known of the store; empty if it answers as its master. */
  readonly storeTrouble: string;
  /** Endpoints that say they are master of the same data. */
  readonly masters: number;
  readonly shape: RecordShape['kind'];
  readonly record: LeaseRecord | null;
  readonly evictionPolicy: string;
  readonly evictedKeys: number;
  /** The server was started, or a replica promoted, since the lease was last confirmed; or it is very young. */
  readonly restarted: boolean;
  readonly fences: readonly FenceFact[];
  /** The tokens of seals that the log of the resource tells of. */
  readonly loggedSeals: readonly number[];
  readonly observation: Observation;
  readonly owner: OwnerFinding;
  /** Connections of the owner's process to the store; undefined if not known. */
  readonly connections: number | undefined;
  /** What a lease must have run out by before anybody else's clock is believed. Milliseconds. */
  readonly marginMs: number;
  /**
   * For how long at most an owner may still trust a lease that the store has lost, where there is no record: nobody knows
   * its ttl, so that of this manager stands for it. Milliseconds.
   */
  readonly trustedMs: number;
  /** Of the server's process; `Infinity` if not known. */
  readonly ageMs: number;
  /** Acquisitions of this manager wait until the server is older than the ttl. */
  readonly quarantined: boolean;
}

/** May it be done, and if not, what is missing. */
export interface Permission {
  readonly allowed: boolean;
  readonly missing: readonly string[];
}

export interface Verdict {
  readonly code: VerdictCode;
  readonly severity: Severity;
  /** One sentence for a person. */
  readonly sentence: string;
  readonly allowed: {
    /** An ordinary acquisition would be granted now, as far as can be told. */
    readonly acquire: boolean;
    readonly revoke: boolean;
    readonly forceRelease: Permission;
    /** Without any fence: two owners may act. Only with a human's own words. */
    readonly forceReleaseUnfenced: Permission;
  };
  readonly waitFor: { readonly what: string; readonly ms: number } | null;
}

export function judge(facts: Facts): Verdict {
  const { record } = facts;
  const found = find(facts);
  const forceRelease = permissionOf(missingOf(facts, found, true));
  return {
    ...found,
    // As said below: a verdict alone does not allow it.
    sentence: forceRelease.allowed ? `${found.sentence} It may be released by force.` : found.sentence,
    allowed: {
      acquire: found.acquire,
      // It moves no expiry, so it harms nobody, whatever else is wrong; but not through a server that may not be the master.
      revoke: record?.state === 'held' && facts.storeTrouble === '' && found.code !== 'split-brain',
      forceRelease,
      forceReleaseUnfenced: permissionOf(missingOf(facts, found, false)),
    },
  };
}

function permissionOf(missing: readonly string[]): Permission {
  return { allowed: missing.length === 0, missing };
}

/** What stands between these facts and a release by force. What compares with nothing (NaN, of a store of one's own) stands. */
function missingOf(facts: Facts, found: Found, isFenced: boolean): readonly string[] {
  const { record, owner, fences, observation, marginMs, shape, storeTrouble } = facts;
  const missing: string[] = [];
  if (storeTrouble !== '') missing.push(`the store cannot be relied on: ${storeTrouble}`);
  if (found.code === 'split-brain') missing.push('two servers say that they are the master');
  if (shape === 'foreign') missing.push('what lies there is not a lease of Leasehold');
  // Nothing was read: whether anybody holds it is not known.
  if (record === null && missing.length > 0) return missing;
  if (record === null || record.state === 'free') return [...missing, 'nobody holds it: there is nothing to release'];
  if (found.code === 'clock-regressed') missing.push("the store's clock has gone back: its times cannot be compared");
  const { remainingMs, elapsedMs } = timesOf(record);
  if (owner.state === 'alive' || owner.state === 'stopped') {
    missing.push(`the owner's process is ${owner.state}: it must be ended first (${owner.detail})`);
  }
  if (remainingMs > 0) {
    missing.push(`the lease runs for ${seconds(remainingMs)} more by the store's clock`);
  } else if (!(elapsedMs >= marginMs)) {
    missing.push(`the lease has run out ${seconds(elapsedMs)} ago; a margin of ${seconds(marginMs)} is needed`);
  }
  if (observation.state === 'changed') missing.push('the record changed while it was watched');
  else if (!(unwatchedMs(observation) <= 0)) {
    missing.push(
      `this process must see the record unchanged for ${seconds(observation.neededMs)} by its own clock; ${seconds(unwatchedMs(observation))} are missing`,
    );
  }
  if (isFenced) {
    const enforcing = fences.filter((fence) => fence.enforcing);
    if (enforcing.length === 0) missing.push('no enforcing fence was named: nothing would stop a late write');
    else if (!enforcing.some(isKnownHere)) {
      const names = enforcing.map(({ name }) => name).join(', ');
      missing.push(`${names} has never admitted anybody here: nothing shows that writers go through it`);
    }
    for (const fence of enforcing) if (fence.highest === undefined) missing.push(`fence ${fence.name} does not answer`);
  }
  return missing;
}

/**
 * Whether a fence guards the resource, as far as can be told. One that knows no token of it is perhaps that of something
 * else: its seal would refuse what nobody sends there. One that does not answer may be the very one.
 */
function isKnownHere({ highest }: Pick<FenceFact, 'highest'>): boolean {
  return highest !== null;
}

/** Something refuses a late write, as far as can be told. */
export function isGuarded(fences: readonly FenceFact[]): boolean {
  return fences.some((fence) => fence.enforcing && isKnownHere(fence));
}

function find(facts: Facts): Found {
  const { resource, record, storeTrouble, masters, shape } = facts;
  if (storeTrouble !== '') {
    return found('unknown', 'alarm', `Nothing can be said of ${resource}: ${storeTrouble}. That is not "free".`);
  }
  if (masters > 1) {
    return found(
      'split-brain',
      'alarm',
      `${masters} servers say that they are the master: ${resource} may have an owner on each. Nobody may release anything.`,
    );
  }
  if (shape === 'foreign') {
    const seen = facts.observation.state === 'changed' ? ' It was extended while it was watched: its owner lives.' : '';
    return found(
      'foreign',
      'alarm',
      `What lies at the key of ${resource} is not a lease of Leasehold. It is left alone.${seen}`,
    );
  }
  if (record === null) return findAbsent(facts);
  if (record.owner === '') {
    const { waiting } = record;
    if (waiting > 0) {
      const sentence = `${resource} is free, and kept for the first of ${waiting} who wait. Who does not come loses the turn.`;
      return found('waiting-turn', 'wait', sentence, {
        waitFor: { what: 'the next waiter, or the end of its turn', ms: clamp(record.ttlMs / 10, 50, 500) },
      });
    }
    return found('released', 'ok', `${resource} is free: its last owner let go of it.`, { acquire: true });
  }
  return findOwned(facts, record, isGuarded(facts.fences));
}

function findAbsent(facts: Facts): Found {
  const { resource, evictionPolicy, evictedKeys, restarted, fences, trustedMs, ageMs, quarantined } = facts;
  const highest = Math.max(0, ...fences.map((fence) => fence.highest ?? 0));
  const acquire = !quarantined;
  const what = quarantined
    ? 'the quarantine: acquisitions wait until what was lost has run out'
    : 'what was lost to run out: an owner may trust it for so long at most';
  // What a start has lost was granted before it. When it was thrown away or flushed nobody knows: perhaps just now.
  const sinceStart = { what, ms: Math.max(0, trustedMs - ageMs) };
  const sinceNow = quarantined
    ? sinceStart
    : { what: `${what}; it counts from the first look that found no record, as this one may be`, ms: trustedMs };
  if (evictedKeys > 0 && evictionPolicy !== '' && evictionPolicy !== 'noeviction') {
    return found(
      'evicted',
      'act',
      `There is no record of ${resource}, and this server evicts keys (${evictionPolicy}, ${evictedKeys} so far): a lease may have been thrown away. Use a fence, and noeviction.`,
      { acquire, waitFor: sinceNow },
    );
  }
  if (restarted || highest > 0) {
    const waitFor = highest > 0 ? sinceNow : sinceStart;
    const why = highest > 0 ? `a fence has admitted token ${highest}` : 'the server is younger than leases can be';
    // Whoever mends the policy does not bring back what is gone.
    const evicted =
      evictedKeys > 0 ? ` It has evicted keys since it started (${evictedKeys}), perhaps this one among them.` : '';
    return found(
      'data-lost',
      'act',
      `There is no record of ${resource}, but ${why}: the store has lost data.${evicted} An owner may still trust a lease for up to its ttl.`,
      { acquire, waitFor: waitFor.ms > 0 ? waitFor : null },
    );
  }
  return found('free', 'ok', `${resource} is free: nobody is known to have held it.`, { acquire: true });
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
