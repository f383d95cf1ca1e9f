import type { SeededHistory } from './bugs.ts';
import { Script, TTL_MS } from './script.ts';

/** `a` is given L1 with ten more tokens, and its first run is over at 200. */
function kept(): Script {
  return new Script()
    .granted(5, 'L1', 100)
    .call(
      0,
      'a',
      'acquire',
      { leaseId: 'L1', ttlMs: TTL_MS },
      { fencingToken: 100, spareTokens: 10, remainingMs: TTL_MS },
    )
    .activate(20, 'a', 'L1', 100)
    .line(40, 'a', 'acquired', 'ok', { resource: 'r', leaseId: 'L1', fencingToken: 100 })
    .write(100, 'a', 'L1', 100, 'w1')
    .line(200, 'a', 'released', 'ok', { resource: 'r', leaseId: 'L1', fencingToken: 100 });
}

/** The next run in `a`, for 100 ms. */
function again(script: Script, atMs: number, token: number): Script {
  const about = { resource: 'r', leaseId: 'L1', fencingToken: token };
  return script
    .activate(atMs, 'a', 'L1', token)
    .line(atMs + 20, 'a', 'acquired', 'ok', about)
    .write(atMs + 40, 'a', 'L1', token, `w${atMs}`)
    .line(atMs + 100, 'a', 'released', 'ok', about);
}

function givenBack(script: Script, atMs: number): Script {
  return script.call(atMs, 'a', 'release', { leaseId: 'L1' }, { outcome: 'released' });
}

function twice(token: number): Script {
  return givenBack(again(kept(), 300, token), 450);
}

function followed(token: number): Script {
  return twice(101).acquire(500, 'b', 'L2', token).release(600, 'b', 'L2');
}

function wanted(script: Script, atMs: number): Script {
  return script.line(atMs, 'a', 'wanted', 'ok', { resource: 'r', leaseId: 'L1' });
}

/** What lingers: errors with several tokens of one leaseId. */
export const lingeringHistories: readonly SeededHistory[] = [
  {
    does: 'two runs in one process with the same token',
    foundBy: 'S14',
    alsoBy: ['S7'],
    good: () => twice(101),
    bad: () => twice(100),
    shows: ['who had L1 next had the token 100, after 100'],
  },
  {
    does: 'a lease with a token that was reserved for the next run of another process',
    foundBy: 'S14',
    good: () => followed(111),
    bad: () => followed(105),
    shows: ['L2 was asked for after L1 had been granted, and has the smaller token'],
  },
  {
    does: 'a lease with the last token that was reserved for another',
    foundBy: 'S14',
    good: () => followed(111),
    bad: () => followed(110),
    shows: ['L2 was asked for after L1 had been granted, and has the smaller token'],
  },
  {
    does: 'a run that writes, by the fence, after the next one has activated',
    foundBy: 'S3',
    alsoBy: ['S1', 'S24'],
    good: () => twice(101),
    bad: () => twice(101).row(415, 'write', 'L1', 100, { writeId: 'w9', before: 2, after: 3 }),
    shows: ['accepted again after another grant had been admitted'],
  },
  {
    does: 'a next run that writes without its own activation',
    foundBy: 'S3',
    alsoBy: ['S24'],
    good: () => twice(101),
    bad: () => twice(101).row(415, 'write', 'L1', 102, { writeId: 'w9', before: 2, after: 3 }),
    shows: ['L1 began with a write'],
  },
  {
    does: 'a run that goes on when the next one has the lease',
    foundBy: 'S7',
    good: () => twice(101),
    bad: () => twice(101).refusedWrite(360, 'a', 'L1', 100, { fencingToken: 101, leaseId: 'L1' }),
    shows: ['L1 was over, and then came write'],
  },
  {
    does: 'a lease that is extended while nobody has it',
    foundBy: 'S7',
    good: () => givenBack(kept(), 450),
    bad: () => givenBack(kept().extend(300, 'a', 'L1'), 450),
    shows: ['L1 was over, and then came extend'],
  },
  {
    does: 'a next run that trusts the lease from its own beginning',
    foundBy: 'S6',
    good: () => givenBack(again(kept(), 800, 101), 930),
    bad: () => givenBack(again(kept(), 930, 101), 1050),
    shows: ['the lease could be trusted until'],
  },
  {
    does: 'a lease that is kept for the next run although its owner has heard that it is wanted',
    foundBy: 'L8',
    good: () => givenBack(wanted(again(kept(), 300, 101), 410), 415),
    bad: () => givenBack(again(wanted(kept(), 250), 300, 101), 415),
    shows: ['L1 was wanted, and went to the next in a'],
  },
  {
    does: 'a lease that lingers on after it was wanted',
    foundBy: 'L8',
    good: () => givenBack(wanted(kept(), 250), 260),
    bad: () => wanted(kept(), 250),
    shows: ['L1 had to be given back from 250.000 ms on'],
  },
  {
    does: 'a lease that lingers again and again for longer than it may',
    foundBy: 'L8',
    options: { lingerMs: 300 },
    good: () => givenBack(again(kept(), 300, 101), 500),
    bad: () => givenBack(again(again(kept(), 300, 101), 600, 102), 710),
    shows: ['after it was first released, 300 ms at most'],
  },
  {
    does: 'a lease that is not given back when its time is over',
    foundBy: 'L8',
    options: { lingerMs: 300 },
    good: () => givenBack(kept(), 500),
    bad: () => kept(),
    shows: ['L1 had to be given back from 500.000 ms on'],
  },
];
