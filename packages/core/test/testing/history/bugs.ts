import type { InvariantId } from '../../../src/testing/history/finding.ts';
import type { CheckOptions } from '../../../src/testing/history/options.ts';
import { grantHistories } from './grant-bugs.ts';
import { ownerHistories } from './owner-bugs.ts';
import { goodRun, Script, TTL_MS } from './script.ts';
import { storeHistories } from './store-bugs.ts';

/** A history with one error of the product in it, and the rule that must find it, alone. */
export interface SeededHistory {
  readonly does: string;
  readonly foundBy: InvariantId;
  /** It can not be without these. */
  readonly alsoBy?: readonly InvariantId[];
  /** What happens where the product is right, in the same circumstances. */
  readonly good: () => Script;
  readonly bad: () => Script;
  readonly options?: CheckOptions;
  /** In the message, besides the rule: what a person needs to see. */
  readonly shows: readonly string[];
}

/** `a` is stopped before its lease runs out, and `b` takes over. */
function paused(): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .write(100, 'a', 'L1', 100, 'w1')
    .nemesis(200, 3000, 'pause', { target: 'a' })
    .acquire(1100, 'b', 'L2', 200)
    .write(1200, 'b', 'L2', 200, 'w2')
    .release(1300, 'b', 'L2');
}

function died(): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .call(50, 'b', 'want', { timeoutMs: undefined }, { endMs: null })
    .line(200, 'a', 'died', 'ok', { outcome: 'killed' })
    .nemesis(200, 200, 'kill', { target: 'a' });
}

function forced(sealed: number, next: number): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .nemesis(100, 4000, 'pause', { target: 'a' })
    .call(2000, 'op', 'seal', { fencingToken: sealed })
    .row(2005, 'seal', null, sealed)
    .call(2100, 'op', 'force', { leaseId: 'L1', fencingToken: 100 })
    .acquire(2200, 'b', 'L2', next)
    .release(2300, 'b', 'L2')
    .lost(4000, 'a', 'L1');
}

export const seededHistories: readonly SeededHistory[] = [
  {
    does: 'a fence that admits a lower token',
    foundBy: 'S1',
    good: goodRun,
    bad: () => goodRun().row(900, 'activate', 'L3', 150),
    shows: ['accepted after it had accepted 200', 'ledger     activate accepted r#150 L3'],
  },
  {
    does: 'a fence that admits what it was sealed against',
    foundBy: 'S1',
    good: () => goodRun().row(900, 'seal', null, 200).row(910, 'activate', 'L3', 201),
    bad: () => goodRun().row(900, 'seal', null, 300).row(910, 'activate', 'L3', 300),
    shows: ['sealed at 300'],
  },
  {
    does: 'a fence that compares the token alone',
    foundBy: 'S2',
    good: goodRun,
    bad: () => goodRun().row(900, 'activate', 'L3', 200),
    shows: ['two leaseIds were accepted with the token 200'],
  },
  {
    does: 'a body that writes before its grant was activated',
    foundBy: 'S3',
    alsoBy: ['S24'],
    good: goodRun,
    bad: () => goodRun().row(900, 'write', 'L3', 300, { before: 3, after: 4, writeId: 'w9' }),
    shows: ['L3 began with a write'],
  },
  {
    does: 'a fence that checks in one step and writes in another',
    foundBy: 'S3',
    alsoBy: ['S1', 'S24'],
    good: goodRun,
    bad: () =>
      goodRun()
        .row(900, 'activate', 'L3', 300)
        .row(910, 'activate', 'L4', 400)
        .row(920, 'write', 'L3', 300, { before: 3, after: 4, writeId: 'w9' }),
    shows: ['accepted again after another grant had been admitted'],
  },
  {
    does: 'an owner that goes by what it read before its predecessor had ended',
    foundBy: 'S4',
    good: goodRun,
    bad() {
      const script = goodRun();
      const write = script.lines.findIndex(({ writeId, phase }) => writeId === 'w3' && phase === 'invoke');
      script.lines[write] = { ...(script.lines[write] as (typeof script.lines)[number]), version: 1 };
      return script;
    },
    shows: ['w3 was decided by version 1 and overwrote version 2'],
  },
  {
    does: 'a write that is carried out twice',
    foundBy: 'S4',
    good: goodRun,
    bad: () => goodRun().row(790, 'write', 'L2', 200, { writeId: 'w3', before: 3, after: 4 }),
    shows: ['w3 was carried out 2 times'],
  },
  {
    does: 'a write that is confirmed and not done',
    foundBy: 'S4',
    good: goodRun,
    bad() {
      const script = goodRun();
      script.fences.splice(
        script.fences.findIndex(({ writeId }) => writeId === 'w3'),
        1,
      );
      return script;
    },
    shows: ['w3 was confirmed and is not in the data'],
  },
  {
    does: 'a write that is said to have failed and is done',
    foundBy: 'S4',
    good: goodRun,
    bad() {
      const script = goodRun();
      const end = script.lines.findIndex(({ act, atMs }) => act === 'write' && atMs === 710);
      script.lines[end] = { ...(script.lines[end] as (typeof script.lines)[number]), phase: 'fail' };
      return script;
    },
    shows: ['w3 was said to have failed and is in the data'],
  },
  {
    does: 'a fence that refuses the owner',
    foundBy: 'S5',
    good: () =>
      goodRun().row(900, 'activate', 'L0', 50, { accepted: false, highest: { fencingToken: 200, leaseId: 'L2' } }),
    bad: () =>
      goodRun().row(900, 'activate', 'L3', 300, { accepted: false, highest: { fencingToken: 200, leaseId: 'L2' } }),
    shows: ['300 was refused at 200'],
  },
  {
    does: 'a refusal that names a token that nobody had',
    foundBy: 'S5',
    good: goodRun,
    bad: () =>
      goodRun().row(900, 'activate', 'L0', 50, { accepted: false, highest: { fencingToken: 500, leaseId: 'L9' } }),
    shows: ['500 of L9, which was never admitted'],
  },
  {
    does: 'an owner that counts its window from the answer',
    foundBy: 'S6',
    good: () =>
      new Script()
        .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { fencingToken: 100, endMs: 300 })
        .activate(310, 'a', 'L1', 100)
        .write(900, 'a', 'L1', 100, 'w1')
        .lost(940, 'a', 'L1'),
    bad: () =>
      new Script()
        .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { fencingToken: 100, endMs: 300 })
        .activate(310, 'a', 'L1', 100)
        .write(1100, 'a', 'L1', 100, 'w1')
        .lost(1150, 'a', 'L1'),
    options: { healedMs: 5000 },
    shows: ['could be trusted until 940.000 ms', '160.000 ms later'],
  },
  {
    does: 'an owner that goes on extending what it has released',
    foundBy: 'S7',
    good: goodRun,
    bad: () => goodRun().extend(900, 'b', 'L2', { phase: 'fail', outcome: 'lost' }),
    shows: ['L2 was over, and then came extend'],
  },
  {
    does: 'an owner that hears twice of its loss',
    foundBy: 'S7',
    good: () => new Script().acquire(0, 'a', 'L1', 100).lost(300, 'a', 'L1', 'superseded'),
    bad: () => new Script().acquire(0, 'a', 'L1', 100).lost(300, 'a', 'L1', 'superseded').lost(310, 'a', 'L1'),
    options: { healedMs: 5000 },
    shows: ['L1 ended 2 times'],
  },
  {
    does: 'an owner that never hears of its loss',
    foundBy: 'S7',
    good: () => new Script().acquire(0, 'a', 'L1', 100).lost(945, 'a', 'L1'),
    bad: () => new Script().acquire(0, 'a', 'L1', 100),
    options: { healedMs: 5000 },
    shows: ['L1 was neither lost nor released'],
  },
  {
    does: "a release that ends another's lease",
    foundBy: 'S8',
    good: () => scopeRun('extended'),
    bad: () => scopeRun('released'),
    options: { healedMs: 5000 },
    shows: ['L2 had until', 'release.invoke'],
  },
  {
    does: 'an extend that revives a lease',
    foundBy: 'S9',
    good: () => paused().lost(3000, 'a', 'L1'),
    bad: () => paused().extend(3000, 'a', 'L1').line(3020, 'a', 'died', 'ok', { outcome: 'killed' }),
    shows: ['L1 was extended although L2 had been granted'],
  },
  {
    does: 'an owner that takes the word on another lease for its own',
    foundBy: 'S9',
    good: () => goodRun().extend(320, 'a', 'L1').line(340, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' }),
    bad: () =>
      goodRun()
        .extend(320, 'a', 'L1', { phase: 'info' })
        .line(340, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' })
        .line(341, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' }),
    shows: ['L1 was taken for extended, and the store had not said so'],
  },
  {
    does: 'an acquire that grants again when it is sent again',
    foundBy: 'S10',
    alsoBy: ['S14'],
    good: goodRun,
    bad: () => goodRun().granted(20, 'L1', 101),
    shows: ['L1 was granted 2 times'],
  },
  {
    does: 'an acquire that answers each time with a new token',
    foundBy: 'S10',
    good: goodRun,
    bad: () => goodRun().call(20, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { fencingToken: 101 }),
    shows: ['L1 was answered with 2 tokens'],
  },
  {
    does: 'an owner that acts though its acquisition had no answer',
    foundBy: 'S11',
    good: () => ghostRun(),
    bad: () => ghostRun().activate(600, 'a', 'L1', 100),
    shows: ['L1 acted without a lease', 'acquire.info'],
  },
  {
    does: 'an operator who tries a token that nobody was given, above his seal',
    foundBy: 'S11',
    good: () => triedGhost(150, 100),
    bad: () => triedGhost(150, 160),
    shows: ['L1 acted without a lease'],
  },
  {
    does: 'a store without tombstones',
    foundBy: 'S11',
    good: () => ghostRun().granted(505, 'L1', 100),
    bad: () => ghostRun().granted(900, 'L1', 100),
    shows: ['L1 was granted after it had been taken back'],
  },
  {
    does: 'a client that sends later what it had said it did not send',
    foundBy: 'S11',
    good: () => goodRun().call(900, 'c', 'acquire', { leaseId: 'L3' }, { phase: 'fail', outcome: 'STORE_UNAVAILABLE' }),
    bad: () =>
      goodRun()
        .call(900, 'c', 'acquire', { leaseId: 'L3' }, { phase: 'fail', outcome: 'STORE_UNAVAILABLE' })
        .granted(1200, 'L3', 300),
    shows: ['L3 was granted, and nobody had sent for it'],
  },
  {
    does: 'a release by force that seals nothing',
    foundBy: 'S12',
    good: () => forced(150, 200),
    bad() {
      const script = forced(150, 200);
      const rest = script.lines.filter(({ act }) => act !== 'seal');
      script.lines.splice(0, Infinity, ...rest);
      return script;
    },
    shows: ['while the fence was sealed at nothing'],
  },
  {
    does: 'a release by force that does not raise the token above the seal',
    foundBy: 'S12',
    good: () => forced(150, 200),
    bad() {
      const script = forced(150, 140);
      const rows = script.fences.filter(({ leaseId }) => leaseId !== 'L2');
      script.fences.splice(0, Infinity, ...rows);
      const lines = script.lines.filter(({ act, leaseId }) => act !== 'activate' || leaseId !== 'L2');
      script.lines.splice(0, Infinity, ...lines);
      return script;
    },
    shows: ['sealed at 150, and the next lease has the token 140'],
  },
  {
    does: 'a diagnosis that changes what it looks at',
    foundBy: 'S13',
    good: () => diagnosed('held'),
    bad: () => diagnosed('held').call(410, 'op', 'cancel', { leaseId: 'L1' }),
    shows: ['it sent cancel while it looked'],
  },
  {
    does: 'a diagnosis that gives up an owner that lives',
    foundBy: 'S13',
    good: () => diagnosed('held'),
    bad: () => diagnosed('orphaned'),
    shows: ['L1 was called orphaned, and then extended by its owner'],
  },
  {
    does: 'tokens that do not grow',
    foundBy: 'S14',
    good: goodRun,
    bad: () =>
      new Script().lease(0, 'a', 'L1', 100).release(100, 'a', 'L1').lease(200, 'b', 'L2', 90).release(300, 'b', 'L2'),
    shows: ['L2 was asked for after L1 had been granted, and has the smaller token'],
  },
  {
    does: 'a token that is given out twice',
    foundBy: 'S14',
    good: goodRun,
    bad: () =>
      new Script().lease(0, 'a', 'L1', 100).release(100, 'a', 'L1').lease(200, 'b', 'L2', 100).release(300, 'b', 'L2'),
    shows: ['L1 and L2 have the token 100'],
  },
  {
    does: 'a store that grants what is held',
    foundBy: 'S15',
    good: goodRun,
    bad: () =>
      new Script().lease(0, 'a', 'L1', 100).lease(200, 'b', 'L2', 200).release(500, 'a', 'L1').release(600, 'b', 'L2'),
    shows: ['L1 and L2 were both trusted for 290.000 ms'],
  },
  {
    does: 'a tick that two processes run',
    foundBy: 'S16',
    good: () => ticks(1),
    bad: () => ticks(0),
    shows: ['tick 60000 of nightly was run 2 times, 1 at most'],
  },
  {
    does: 'a store from which nobody gets a lease again',
    foundBy: 'L1',
    good: () => healed().acquire(3600, 'b', 'L2', 200).release(3700, 'b', 'L2'),
    bad: () => healed(),
    shows: ['r was wanted, all was well from 3000.000 ms on'],
  },
  {
    does: 'an owner that learns nothing from a refusal',
    foundBy: 'L2',
    good: () => refusedActivations(2),
    bad: () => refusedActivations(3),
    shows: ['3 activations in a row were refused'],
  },
  {
    does: 'owners of whom each is refused by what the one before it had learned',
    foundBy: 'L2',
    good: () => refusedInTurn(2),
    bad: () => refusedInTurn(3),
    shows: ['3 activations in a row were refused'],
  },
  {
    does: 'a killed owner whose lease goes to nobody',
    foundBy: 'L3',
    good: () => died().acquire(1100, 'b', 'L2', 200).release(1200, 'b', 'L2'),
    bad: () => died().acquire(6000, 'b', 'L2', 200).release(6100, 'b', 'L2'),
    options: { healedMs: 9000 },
    shows: ['b waited, and had no lease by 2250.000 ms', 'died.ok'],
  },
  {
    does: 'an owner that was stopped in mid-write and holds up its successor',
    foundBy: 'L4',
    good: () => heldUp(5900),
    bad: () => heldUp(8000),
    shows: ['activate took 8000.000 ms'],
  },
  {
    does: 'an owner that forgets to extend',
    foundBy: 'L5',
    good: goodRun,
    bad: () => new Script().acquire(0, 'a', 'L1', 100).lost(945, 'a', 'L1'),
    shows: ['L1 was lost (expired) and nothing had happened'],
  },
  {
    does: 'an owner that wakes up and believes what comes then',
    foundBy: 'L6',
    good: () => paused().lost(3000, 'a', 'L1'),
    bad: () =>
      paused()
        .extend(190, 'a', 'L1', { endMs: 3000 })
        .line(3000.5, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' })
        .lost(3001, 'a', 'L1'),
    shows: ['its owner woke up later and began with extended'],
  },
  {
    does: 'a call that never settles',
    foundBy: 'L7',
    good: () => goodRun().call(900, 'a', 'revoke', { leaseId: 'L2' }, { phase: 'info', endMs: 1400 }),
    bad: () => goodRun().call(900, 'a', 'revoke', { leaseId: 'L2' }, { endMs: null }),
    shows: ['revoke had not settled after 9100.000 ms, 750 ms at most'],
  },
  ...ownerHistories,
  ...storeHistories,
  ...grantHistories,
];

/** That did not end well. */
function ticks(retries: number): Script {
  const about = { resource: 'r', job: 'nightly', tickAt: 60_000, retries };
  const script = goodRun();
  const release = script.lines.findIndex(({ act }) => act === 'release');
  script.lines[release] = { ...(script.lines[release] as (typeof script.lines)[number]), outcome: 'failed' };
  return script
    .line(50, 'a', 'run', 'ok', { ...about, leaseId: 'L1', fencingToken: 100 })
    .line(650, 'b', 'run', 'ok', { ...about, leaseId: 'L2', fencingToken: 200 });
}

function scopeRun(outcome: 'extended' | 'released'): Script {
  const script = new Script()
    .acquire(0, 'a', 'L1', 100)
    .lost(940, 'a', 'L1')
    .acquire(1010, 'b', 'L2', 200)
    .call(1100, 'a', 'release', { leaseId: 'L1' }, { phase: 'fail', outcome: 'superseded' });
  if (outcome === 'extended') {
    return script
      .extend(1200, 'b', 'L2', { phase: 'fail', outcome: 'STORE_UNAVAILABLE' })
      .extend(1300, 'b', 'L2')
      .release(1400, 'b', 'L2');
  }
  return script.extend(1300, 'b', 'L2', { phase: 'fail', outcome }).lost(1311, 'b', 'L2', outcome);
}

/** An acquisition without an answer, taken back. */
function ghostRun(): Script {
  return new Script()
    .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { phase: 'info', endMs: 500 })
    .call(500, 'a', 'cancel', { leaseId: 'L1' });
}

/** A lease whose owner died before it was answered: its token is tried once the fence is sealed. */
function triedGhost(sealed: number, token: number): Script {
  return new Script()
    .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: TTL_MS }, { endMs: null })
    .line(20, 'a', 'died', 'ok')
    .call(2000, 'op', 'seal', { fencingToken: sealed })
    .row(2005, 'seal', null, sealed)
    .call(2050, 'op', 'activate', { leaseId: 'L1', fencingToken: token }, { phase: 'fail', outcome: 'STALE_TOKEN' });
}

function diagnosed(verdict: string): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .extend(300, 'a', 'L1')
    .call(400, 'op', 'diagnose', { timeoutMs: undefined }, { leaseId: 'L1', outcome: verdict, endMs: 450 })
    .extend(600, 'a', 'L1')
    .release(700, 'a', 'L1');
}

function healed(): Script {
  return new Script()
    .acquire(0, 'a', 'L1', 100)
    .release(100, 'a', 'L1')
    .nemesis(200, 3000, 'partition', { target: 'b' })
    .call(150, 'b', 'want', { timeoutMs: undefined }, { endMs: null });
}

/** Of one grant, after an operator has sealed the fence far above it. */
function refusedActivations(times: number): Script {
  const script = goodRun().row(900, 'seal', null, 500).lease(950, 'c', 'L3', 300);
  const highest = { fencingToken: 500, leaseId: null };
  for (let index = 0; index < times; index++) {
    script.row(1000 + 100 * index, 'activate', 'L3', 300, { accepted: false, highest });
  }
  return script.release(1500, 'c', 'L3');
}

function refusedInTurn(times: number): Script {
  const script = goodRun().row(900, 'seal', null, 500);
  const highest = { fencingToken: 500, leaseId: null };
  for (let index = 0; index < times; index++) {
    const [atMs, leaseId, token] = [1000 + 200 * index, `L${3 + index}`, 300 + index];
    script.lease(atMs, 'c', leaseId, token).row(atMs + 50, 'activate', leaseId, token, { accepted: false, highest });
    script.release(atMs + 100, 'c', leaseId);
  }
  return script;
}

function heldUp(forMs: number): Script {
  return goodRun()
    .call(
      900,
      'c',
      'activate',
      { leaseId: 'L0', fencingToken: 250, timeoutMs: undefined },
      {
        phase: 'fail',
        endMs: 900 + forMs,
      },
    )
    .lease(800, 'c', 'L0', 250)
    .lost(1745, 'c', 'L0', 'fenced')
    .nemesis(0, 1, 'partition', { target: 'c' });
}
