import { expect, test } from 'vitest';

import type { OwnerState } from '../../src/diagnosis/probe.ts';
import { judge, type Facts, type FenceFact, type Observation } from '../../src/diagnosis/verdict.ts';
import { factsWith, free, MARGIN_MS, NEEDED_MS, ownerThatIs, recordOf, TOKEN, TTL_MS } from './facts.ts';

const ROUNDS = 10_000;

/** mulberry32: the same numbers each time. */
function randomFrom(seed: number): () => number {
  let at = seed;
  return () => {
    at = (at + 0x6d2b79f5) | 0;
    let t = Math.imul(at ^ (at >>> 15), 1 | at);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function anyFacts(random: () => number): Facts {
  const oneOf = <T>(...choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T;
  const often = (): boolean => random() < 0.85;
  const anyFence = (): FenceFact => ({
    name: oneOf('ledger', 'mail'),
    enforcing: often(),
    highest: often() ? TOKEN : oneOf<number | null | undefined>(TOKEN + 5, TOKEN - 5, null, undefined),
    sealed: !often(),
  });
  const anyObservation = (): Observation => ({
    state: often() ? 'unchanged' : oneOf<Observation['state']>('none', 'changed'),
    forMs: often() ? NEEDED_MS : random() * NEEDED_MS,
    neededMs: NEEDED_MS,
  });
  const sinceMs = often() ? (0.9 + random()) * NEEDED_MS : (random() * 3 - 1) * TTL_MS;
  return factsWith({
    storeTrouble: often() ? '' : 'no answer',
    masters: often() ? 1 : 2,
    shape: often() ? 'record' : oneOf<Facts['shape']>('absent', 'foreign'),
    record: often() ? recordOf(sinceMs, { revoked: !often(), waiting: often() ? 0 : 3 }) : oneOf(null, free),
    evictionPolicy: oneOf('noeviction', 'allkeys-lru'),
    evictedKeys: oneOf(0, 3),
    restarted: !often(),
    fences: Array.from({ length: oneOf(0, 1, 1, 2) }, anyFence),
    observation: anyObservation(),
    owner: ownerThatIs(oneOf<OwnerState>('gone', 'unverifiable', 'unverifiable', 'alive', 'stopped')),
    connections: oneOf(undefined, 0, 1),
  });
}

/** Written again from the rule, not from the code: why a release with a fence must be refused. Empty if nothing forbids it. */
function forbids(facts: Facts): readonly string[] {
  const { record, owner, fences, observation } = facts;
  const sinceExtendedMs = record === null ? 0 : (record.nowUs - record.extendedUs) / 1000;
  const reasons: Readonly<Record<string, boolean>> = {
    'the owner lives': owner.state === 'alive' || owner.state === 'stopped',
    'nobody owns it': record === null || record.owner === '',
    'the lease runs, or ran out within the margin': sinceExtendedMs < TTL_MS + MARGIN_MS,
    'not watched for long enough': observation.state !== 'unchanged' || observation.forMs < NEEDED_MS,
    'the store is not to be relied on': facts.storeTrouble !== '' || facts.masters > 1,
    'it is not ours': facts.shape === 'foreign',
    // One that knows nobody of this resource shows nothing.
    'a fence is missing': !fences.some(({ enforcing, highest }) => enforcing && highest !== null),
    'a fence is silent': fences.some(({ enforcing, highest }) => enforcing && highest === undefined),
  };
  return Object.keys(reasons).filter((reason) => reasons[reason] === true);
}

test.each([1, 2])('a release by force is allowed if and only if no rule forbids it (seed %i)', (seed) => {
  const random = randomFrom(seed);
  const seen = { allowed: 0, refused: new Set<string>(), unfenced: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const facts = anyFacts(random);
    const { allowed, code } = judge(facts);
    const against = forbids(facts);
    const beside = against.filter((reason) => !reason.startsWith('a fence'));
    const is = [allowed.forceRelease.allowed, allowed.forceReleaseUnfenced.allowed];
    const must = [against.length === 0, beside.length === 0];
    // What no fence can stop is allowed on no less, but for the fence.
    if (is.join() !== must.join())
      throw new Error(`${code}: ${is.join()} instead of ${must.join()}: ${JSON.stringify(facts)}`);
    if (allowed.forceRelease.allowed) seen.allowed++;
    if (allowed.forceReleaseUnfenced.allowed) seen.unfenced++;
    // Alone, or another rule could hide that this one is not kept.
    if (against.length === 1) seen.refused.add(against[0] as string);
  }
  expect(seen.allowed).toBeGreaterThan(300);
  expect(seen.unfenced).toBeGreaterThan(seen.allowed);
  expect(seen.refused.size).toBeGreaterThanOrEqual(7);
});

test.each([5])(
  'nobody is said to hold it whose process stands still or is gone, unless it was seen to extend (seed %i)',
  (seed) => {
    const random = randomFrom(seed);
    const seen = { held: 0, paused: 0, 'orphaned-running': 0 };
    for (let round = 0; round < ROUNDS; round++) {
      const facts = { ...anyFacts(random), record: recordOf(random() * TTL_MS) };
      const { code } = judge(facts);
      if (code !== 'held' && code !== 'paused' && code !== 'orphaned-running') continue;
      seen[code]++;
      const isSeen = facts.observation.state === 'changed';
      expect(facts.owner.state === 'stopped' && !isSeen).toBe(code === 'paused');
      expect(facts.owner.state === 'gone' && !isSeen).toBe(code === 'orphaned-running');
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(300);
  },
);

test.each([3])('nobody is called stale who may hold it still (seed %i)', (seed) => {
  const random = randomFrom(seed);
  let stale = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const facts = anyFacts(random);
    const { code } = judge(facts);
    if (code !== 'orphaned' && code !== 'stale-suspect' && code !== 'stale-unfenced') continue;
    stale++;
    const { record, owner, observation } = facts;
    const ranOutMs = record === null ? 0 : (record.nowUs - record.expiresUs) / 1000;
    expect(ranOutMs).toBeGreaterThanOrEqual(MARGIN_MS);
    expect(observation).toMatchObject({ state: 'unchanged', forMs: NEEDED_MS });
    expect(owner.state).toBe(code === 'orphaned' ? 'gone' : 'unverifiable');
  }
  expect(stale).toBeGreaterThan(300);
});
