import type { SeededHistory } from './bugs.ts';
import { adopted } from './owner-bugs.ts';
import { goodRun, Script, TTL_MS } from './script.ts';

/** Errors of a store with those who come one after the other, and of a fence with its book. */
export const storeHistories: readonly SeededHistory[] = [
  {
    does: 'one ticket that two adopt',
    foundBy: 'S20',
    good: () =>
      adopted(adopted(handedOver(), 'L2', 'b', 150), 'L3', 'c', 400, { phase: 'fail', outcome: 'superseded' }),
    bad: () => adopted(adopted(handedOver(), 'L2', 'b', 150), 'L3', 'c', 400),
    shows: ['L1 was adopted as L2 and as L3'],
  },
  {
    does: "a process that releases another's lease by its leaseId",
    foundBy: 'S8',
    good: goodRun,
    bad: () => goodRun().call(750, 'c', 'release', { leaseId: 'L2' }, { outcome: 'released' }),
    shows: ['c released L2, which it had never asked for'],
  },
  {
    does: 'a store that passes over who waits',
    foundBy: 'S22',
    good: () => inLine('b', 'L2').release(700, 'b', 'L2'),
    bad: () => inLine('c', 'L3').release(700, 'c', 'L3'),
    shows: ['L2 waited, and L3, which came later, had the lease within its turn'],
  },
  {
    does: 'a quarantine that is not kept',
    foundBy: 'S23',
    good: () => lostData(0),
    bad: () => lostData(400),
    shows: ['nothing was known of r, and L2 was granted although it asked for 400 ms'],
  },
  {
    does: 'a process that does not wait after a restart, although it is to',
    foundBy: 'S23',
    good: () => restarted(900),
    bad: () => restarted(0),
    shows: ['b is to wait after a restart, and asked for 0 ms of the'],
  },
  {
    does: 'a write that is carried out under the grant of somebody else',
    foundBy: 'S24',
    good: () => lateWrite('L1', 100, 1050),
    bad: () => lateWrite('L2', 200, 1390),
    shows: ['w9 was sent as L1 with 100, and stands there as L2 with 200'],
  },
  {
    does: 'an activation that is confirmed and not done',
    foundBy: 'S24',
    good: goodRun,
    bad: () =>
      goodRun()
        .lease(900, 'c', 'L3', 300)
        .call(920, 'c', 'activate', { leaseId: 'L3', fencingToken: 300 })
        .release(950, 'c', 'L3'),
    shows: ['the activation of L3 was confirmed and is not in the book'],
  },
  {
    does: 'a seal that is confirmed and not done',
    foundBy: 'S24',
    good: () => goodRun().call(900, 'op', 'seal', { fencingToken: 200 }).row(905, 'seal', null, 200),
    bad: () => goodRun().call(900, 'op', 'seal', { fencingToken: 200 }),
    shows: ['r was sealed at 200, and its book does not say so'],
  },
  {
    does: 'a grant that nobody asked for',
    foundBy: 'S25',
    good: () => goodRun().acquire(900, 'c', 'L3', 300).release(950, 'c', 'L3'),
    bad: () => goodRun().activate(900, 'c', 'L3', 300),
    shows: ['nobody had asked for L3'],
  },
  {
    does: 'an owner that acts with another token than it was given',
    foundBy: 'S25',
    good: () => new Script().lease(0, 'a', 'L1', 100).activate(20, 'a', 'L1', 100).release(200, 'a', 'L1'),
    bad: () => new Script().lease(0, 'a', 'L1', 100).activate(20, 'a', 'L1', 150).release(200, 'a', 'L1'),
    shows: ['L1 was given the token 100, and acted with 150'],
  },
];

function handedOver(): Script {
  return new Script().acquire(0, 'a', 'L1', 100).line(100, 'a', 'handed-over', 'ok', { leaseId: 'L1', resource: 'r' });
}

/** `b` waits from 100 ms on, `c` asks at 300 ms, and at 520 ms one of them has what `a` has given back. */
function inLine(process: string, leaseId: string): Script {
  const asks = { ttlMs: TTL_MS, mode: 'wait', waitRefreshMs: 300 } as const;
  const queued = { phase: 'fail', outcome: 'held' } as const;
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .call(100, 'b', 'acquire', { leaseId: 'L2', ...asks }, queued)
    .call(300, 'c', 'acquire', { leaseId: 'L3', ...asks }, queued)
    .call(400, 'b', 'acquire', { leaseId: 'L2', ...asks }, queued)
    .release(500, 'a', 'L1')
    .granted(525, leaseId, 200)
    .call(520, process, 'acquire', { leaseId, ...asks }, { fencingToken: 200, remainingMs: TTL_MS });
}

function lostData(quarantineMs: number): Script {
  return new Script()
    .lease(0, 'a', 'L1', 100)
    .release(20, 'a', 'L1')
    .nemesis(100, 110, 'data-loss', { outcome: 'all' })
    .granted(205, 'L2', 200)
    .call(
      200,
      'b',
      'acquire',
      { leaseId: 'L2', ttlMs: TTL_MS, quarantineMs },
      { fencingToken: 200, remainingMs: TTL_MS },
    )
    .release(300, 'b', 'L2');
}

/** `b` is to wait after a restart, and asks 100 ms after one. */
function restarted(quarantineMs: number): Script {
  const ask = { leaseId: 'L2', ttlMs: TTL_MS, quarantineMs } as const;
  return new Script()
    .nemesis(100, 110, 'data-loss', { outcome: 'all' })
    .nemesis(100, 110, 'restart')
    .call(150, 'b', 'want', { careful: true, timeoutMs: undefined }, { phase: 'fail', endMs: 300 })
    .call(200, 'b', 'acquire', ask, { phase: 'fail', outcome: 'quarantine' });
}

/** Sent by `a` before its lease was over, and answered when `b` had the next one. */
function lateWrite(leaseId: string, fencingToken: number, atMs: number): Script {
  const row = { writeId: 'w9', before: 1, after: 2 };
  const script = new Script()
    .acquire(0, 'a', 'L1', 100)
    .write(100, 'a', 'L1', 100, 'w1')
    .call(880, 'a', 'write', { leaseId: 'L1', fencingToken: 100, writeId: 'w9', version: 1 }, { endMs: 1400 });
  const isEarly = atMs < 1100;
  if (isEarly) script.row(atMs, 'write', leaseId, fencingToken, row);
  script.lost(945, 'a', 'L1').acquire(1100, 'b', 'L2', 200);
  if (!isEarly) script.row(atMs, 'write', leaseId, fencingToken, row);
  return script.release(1500, 'b', 'L2').nemesis(0, 1, 'partition', { target: 'a' });
}
