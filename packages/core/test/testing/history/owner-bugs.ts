import type { SeededHistory } from './bugs.ts';
import { goodRun, Script, TTL_MS } from './script.ts';

/** Errors of an owner with the lease that it has, or that it does not have. */
export const ownerHistories: readonly SeededHistory[] = [
  {
    does: 'a revoked lease that is extended',
    foundBy: 'S17',
    good: () =>
      revoked()
        .extend(300, 'a', 'L1', REVOKED)
        .line(311, 'a', 'cancelled', 'ok', { leaseId: 'L1' })
        .release(400, 'a', 'L1'),
    bad: () => revoked().extend(300, 'a', 'L1').release(400, 'a', 'L1'),
    shows: ['L1 had been revoked, and then came extend', 'revoke.ok', 'extend.ok'],
  },
  {
    does: 'a revoked lease that is adopted',
    foundBy: 'S17',
    good: () => adopted(given(revoked()), 'L2', 'b', 300, { phase: 'fail', outcome: 'revoked' }),
    bad: () => adopted(given(revoked()), 'L2', 'b', 300),
    shows: ['L1 had been revoked, and then came adopt'],
  },
  {
    does: 'an owner that knows of its revocation, and does not tell its run',
    foundBy: 'S17',
    good: () => revoked().extend(300, 'a', 'L1', REVOKED).release(500, 'a', 'L1'),
    bad: () => revoked().extend(300, 'a', 'L1', REVOKED).release(900, 'a', 'L1'),
    shows: ['the run of L1 was never told that it is revoked'],
  },
  {
    does: 'an owner that extends beyond its maxHold',
    foundBy: 'S18',
    good: () => heldFor(700).line(740, 'a', 'cancelled', 'ok', { leaseId: 'L1' }).release(1500, 'a', 'L1'),
    bad: () => heldFor(1000).line(1040, 'a', 'cancelled', 'ok', { leaseId: 'L1' }).release(1500, 'a', 'L1'),
    shows: ['L1 was to be held for 700 ms, and was extended'],
  },
  {
    does: 'an owner that does not tell its run that its maxHold is over',
    foundBy: 'S18',
    good: () => heldFor(700).release(980, 'a', 'L1'),
    bad: () => heldFor(700).release(1500, 'a', 'L1'),
    shows: ['L1 was to be held for 700 ms, and its run was not told to end'],
  },
  {
    does: 'an owner that hears of its loss when somebody else has had the lease for long',
    foundBy: 'S19',
    good: () => superseded(1100),
    bad: () => superseded(5000),
    shows: ['L1 could be trusted until 940.000 ms, and its loss was heard 4060.000 ms later'],
  },
  {
    does: 'a run that does not wait for its body',
    foundBy: 'S21',
    good: () => atWork(450),
    bad: () => atWork(550),
    shows: ['L1 was given back while its body was at work', 'body.ok'],
  },
  {
    does: 'an owner that takes back nothing',
    foundBy: 'L9',
    good: () => unanswered().call(510, 'a', 'cancel', { leaseId: 'L1' }).extend(3000, 'a', 'L2').lost(3500, 'a', 'L2'),
    bad: () => unanswered().extend(3000, 'a', 'L2').lost(3500, 'a', 'L2'),
    shows: ['L1 had to be taken back by'],
  },
  {
    does: 'an owner that takes back once, and not again',
    foundBy: 'L9',
    good: () => takenBack().call(1200, 'a', 'cancel', { leaseId: 'L1' }).extend(3000, 'a', 'L2').lost(3500, 'a', 'L2'),
    bad: () => takenBack().extend(3000, 'a', 'L2').lost(3500, 'a', 'L2'),
    shows: ['L1 had to be taken back by', 'cancel.info'],
  },
];

const REVOKED = { phase: 'fail', outcome: 'revoked', remainingMs: undefined } as const;

function revoked(): Script {
  return new Script()
    .nemesis(0, 1, 'revoke')
    .acquire(0, 'a', 'L1', 100)
    .call(100, 'op', 'revoke', { leaseId: 'L1' }, { outcome: 'revoked' });
}

/** By a ticket. */
function given(script: Script): Script {
  return script.line(200, 'a', 'handed-over', 'ok', { leaseId: 'L1', resource: 'r' });
}

export function adopted(
  script: Script,
  leaseId: string,
  process: string,
  atMs: number,
  end: Parameters<Script['call']>[4] = {},
): Script {
  script.call(
    atMs,
    process,
    'adopt',
    { leaseId, ttlMs: TTL_MS, from: 'L1' },
    end.phase === undefined ? { fencingToken: atMs, remainingMs: TTL_MS } : end,
  );
  return end.phase === undefined
    ? script.granted(atMs + 5, leaseId, atMs).release(atMs + 60, process, leaseId)
    : script;
}

/** For 700 ms at most, and extended at two times. */
function heldFor(extendedMs: number): Script {
  return new Script()
    .call(0, 'a', 'want', { timeoutMs: undefined }, { leaseId: 'L1', fencingToken: 100, maxHoldMs: 700, endMs: 30 })
    .acquire(0, 'a', 'L1', 100)
    .extend(500, 'a', 'L1')
    .extend(extendedMs, 'a', 'L1');
}

/** Nothing happens but that it is not extended. */
function superseded(heardMs: number): Script {
  return new Script()
    .nemesis(0, 1, 'partition', { target: 'z' })
    .lease(0, 'a', 'L1', 100)
    .lease(1100, 'b', 'L2', 200)
    .release(1300, 'b', 'L2')
    .lost(heardMs, 'a', 'L1');
}

function atWork(untilMs: number): Script {
  return goodRun().call(30, 'a', 'body', { leaseId: 'L1', timeoutMs: undefined }, { endMs: untilMs });
}

/** With another lease, whose extensions show that the store is within reach. */
function unanswered(): Script {
  const other = { resource: 'r2', leaseId: 'L2', ttlMs: 10_000 };
  return new Script()
    .nemesis(0, 1, 'partition', { target: 'a' })
    .call(0, 'a', 'acquire', other, { fencingToken: 7, remainingMs: 10_000 })
    .call(20, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { phase: 'info', endMs: 500 });
}

function takenBack(): Script {
  return unanswered().call(510, 'a', 'cancel', { leaseId: 'L1' }, { phase: 'info', endMs: 1010 });
}
