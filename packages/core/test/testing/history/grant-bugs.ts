import type { SeededHistory } from './bugs.ts';
import { goodRun, Script, TTL_MS } from './script.ts';

const UNANSWERED = { phase: 'info', endMs: 400 } as const;

/** Errors that only the books of the store and of the fence show: who was told nothing cannot tell. */
export const grantHistories: readonly SeededHistory[] = [
  {
    does: 'a store that gives out what is held, and whose answer is lost',
    foundBy: 'S15',
    good: () => over(1005),
    bad: () => over(100),
    shows: ['L2 was given what L1 was trusted for'],
  },
  {
    does: 'an extension of what was given to somebody who never heard of it',
    foundBy: 'S9',
    alsoBy: ['S15'],
    good: () => overExtended(false),
    bad: () => overExtended(true),
    shows: ['L1 was extended although L2 had been given the lease'],
  },
  {
    does: 'a token that is given out twice, the first time without an answer',
    foundBy: 'S14',
    good: () => afterUnanswered(300),
    bad: () => afterUnanswered(200),
    shows: ['L2 was given 200, after L1 had been given 200'],
  },
  {
    does: 'an answer with another token than was given',
    foundBy: 'S10',
    good: () => answered(200),
    bad: () => answered(300),
    shows: ['L2 was answered with 300, which was not given'],
  },
  {
    does: 'an expired leaseId that is granted again',
    foundBy: 'S10',
    good: () => grantedAgain('L9'),
    bad: () => grantedAgain('L1'),
    shows: ['L1 was granted 2 times'],
  },
  {
    does: 'a refusal in the name of somebody who never had the token',
    foundBy: 'S5',
    good: () => refusedAt({ fencingToken: 300, leaseId: 'L3' }, 'L2', 200),
    bad: () => refusedAt({ fencingToken: 300, leaseId: 'nobody' }, 'L3', 300),
    shows: ['the refusal names 300 of nobody, which was never admitted'],
  },
  {
    does: 'a refusal without a reason, of the owner',
    foundBy: 'S5',
    good: () => refusedAt(undefined, 'L2', 200),
    bad: () => refusedAt(undefined, 'L3', 300),
    shows: ['L3 with 300 was refused, and nothing above it was ever admitted'],
  },
  {
    does: 'a write that leaves no trace',
    foundBy: 'S4',
    good: () => traced(2, 2),
    bad: () => traced(1, 1),
    shows: ['w2 left the data at 1, and had found it at 1'],
  },
  {
    does: 'a write that is gone before the first that the book has',
    foundBy: 'S4',
    good: goodRun,
    bad: () =>
      new Script()
        .acquire(0, 'a', 'L1', 100)
        .call(100, 'a', 'write', { leaseId: 'L1', fencingToken: 100, writeId: 'w1' })
        .row(105, 'write', 'L1', 100, { writeId: 'w1', before: 7, after: 8 })
        .release(300, 'a', 'L1'),
    shows: ['the data began at 0, and the first write found 7'],
    options: { firstVersion: 0 },
  },
  {
    does: 'a release by force whose seal the fence confirmed and did not write down',
    foundBy: 'S12',
    alsoBy: ['S24'],
    good: () => forced(true),
    bad: () => forced(false),
    shows: ['r#100 was released by force, and the book of the fence shows no seal'],
  },
  {
    does: 'a tick that had ended well and is run again',
    foundBy: 'S16',
    good: () => ranTwice('failed', 1, 1),
    bad: () => ranTwice('done', 1, 1),
    shows: ['tick 1 of nightly had ended well, and was run again'],
  },
  {
    does: 'a tick that is run after the one that followed it',
    foundBy: 'S16',
    good: () => ranTwice('done', 1, 2),
    bad: () => ranTwice('done', 2, 1),
    shows: ['tick 1 of nightly was run after tick 2'],
  },
  {
    does: 'two bodies of a tick under one lease',
    foundBy: 'S16',
    good: () => ranTwice('failed', 1, 1),
    bad: () => ranTwice('failed', 1, 1).line(51, 'b', 'run', 'ok', { ...TICK, tickAt: 1, leaseId: 'L1', retries: 2 }),
    shows: ['tick 1 of nightly was run 2 times by L1'],
  },
  {
    does: 'a waiter for whom somebody who came later is preferred',
    foundBy: 'L3',
    good: () => served('b', 40),
    bad: () => served('c', 1250),
    shows: ['b waited, and had no lease by 2250.000 ms'],
    options: { healedMs: 9000 },
  },
  {
    does: 'a store from which nobody gets a lease, while an operator seals',
    foundBy: 'L1',
    good: () => sealed().acquire(600, 'b', 'L2', 200).release(700, 'b', 'L2'),
    bad: () => sealed(),
    shows: ['r was wanted'],
  },
];

const TICK = { resource: 'r', job: 'nightly' } as const;

/** Given to `b`, who hears nothing of it, while `a` has it or when its time is over. */
function over(atMs: number): Script {
  const script = new Script().nemesis(0, 1, 'partition', { target: 'b' }).acquire(0, 'a', 'L1', 100);
  const ask = { leaseId: 'L2', ttlMs: TTL_MS } as const;
  script.call(atMs - 5, 'b', 'acquire', ask, { phase: 'info', endMs: atMs + 300 }).granted(atMs, 'L2', 200);
  return script.lost(940, 'a', 'L1');
}

function overExtended(isExtended: boolean): Script {
  const script = new Script()
    .nemesis(0, 1, 'partition', { target: 'b' })
    .acquire(0, 'a', 'L1', 100)
    .call(95, 'b', 'acquire', { leaseId: 'L2', ttlMs: TTL_MS }, UNANSWERED);
  if (isExtended) script.granted(100, 'L2', 200);
  return script.extend(450, 'a', 'L1').release(700, 'a', 'L1');
}

function afterUnanswered(token: number): Script {
  return new Script()
    .granted(5, 'L1', 200)
    .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { phase: 'info', endMs: 300 })
    .call(310, 'a', 'cancel', { leaseId: 'L1' })
    .acquire(600, 'b', 'L2', token)
    .release(700, 'b', 'L2');
}

function answered(token: number): Script {
  return new Script()
    .granted(5, 'L2', 200)
    .call(0, 'b', 'acquire', { leaseId: 'L2', ttlMs: TTL_MS }, { fencingToken: token, remainingMs: TTL_MS })
    .release(100, 'b', 'L2');
}

function grantedAgain(leaseId: string): Script {
  const ask = { leaseId, ttlMs: TTL_MS } as const;
  return new Script()
    .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, UNANSWERED)
    .granted(5, 'L1', 100)
    .granted(2005, leaseId, 200)
    .call(2000, 'a', 'acquire', ask, { phase: 'info', endMs: 2400 });
}

function refusedAt(
  highest: { fencingToken: number; leaseId: string } | undefined,
  leaseId: string,
  token: number,
): Script {
  const about = { accepted: false, highest, writeId: 'late' };
  return goodRun()
    .nemesis(0, 1, 'partition', { target: 'a' })
    .acquire(900, 'a', 'L3', 300)
    .call(1000, 'x', 'write', { leaseId, fencingToken: token, writeId: 'late', delegated: true }, { phase: 'fail' })
    .row(1005, 'write', leaseId, token, about)
    .release(1100, 'a', 'L3');
}

/** A second write that leaves the data at `after`, and a third one that goes by `version`. */
function traced(after: number, version: number): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .write(100, 'a', 'L1', 100, 'w1')
    .call(200, 'a', 'write', { leaseId: 'L1', fencingToken: 100, writeId: 'w2', version: 1 })
    .row(205, 'write', 'L1', 100, { writeId: 'w2', before: 1, after })
    .call(300, 'a', 'write', { leaseId: 'L1', fencingToken: 100, writeId: 'w3', version })
    .row(305, 'write', 'L1', 100, { writeId: 'w3', before: version, after: version + 1 })
    .release(500, 'a', 'L1');
}

function forced(isWritten: boolean): Script {
  const script = new Script()
    .acquire(0, 'a', 'L1', 100)
    .nemesis(100, 4000, 'pause', { target: 'a' })
    .call(2000, 'op', 'seal', { fencingToken: 150 });
  if (isWritten) script.row(2005, 'seal', null, 150);
  return script
    .call(2100, 'op', 'force', { leaseId: 'L1', fencingToken: 100 })
    .acquire(2200, 'b', 'L2', 200)
    .release(2300, 'b', 'L2')
    .lost(4000, 'a', 'L1');
}

/** One tick after the other, the first of which ended so. */
function ranTwice(outcome: string, first: number, second: number): Script {
  const retries = 2;
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .line(50, 'a', 'run', 'ok', { ...TICK, tickAt: first, leaseId: 'L1', retries })
    .call(200, 'a', 'release', { leaseId: 'L1', outcome }, { outcome: 'released' })
    .acquire(300, 'b', 'L2', 200)
    .line(350, 'b', 'run', 'ok', { ...TICK, tickAt: second, leaseId: 'L2', retries })
    .release(400, 'b', 'L2');
}

/** `a` is killed while `b` waits, and `process`, who has wanted it since then, is next. */
function served(process: string, wantedMs: number): Script {
  const script = new Script()
    .acquire(0, 'a', 'L1', 100)
    .call(50, 'b', 'want', { timeoutMs: undefined }, { endMs: null })
    .line(200, 'a', 'died', 'ok', { outcome: 'killed' })
    .nemesis(200, 200, 'kill', { target: 'a' });
  if (process !== 'b') script.call(wantedMs, process, 'want', { timeoutMs: undefined }, { endMs: 1320 });
  return script.acquire(1300, process, 'L2', 200).release(1400, process, 'L2');
}

function sealed(): Script {
  return new Script()
    .nemesis(0, 10, 'partition', { target: 'a' })
    .call(20, 'b', 'want', { timeoutMs: undefined }, { endMs: null })
    .call(400, 'op', 'seal', { fencingToken: 50 })
    .row(405, 'seal', null, 50);
}
