import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';

import type { Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { Fleet, trueNow, type End, type Fault } from './fixtures/cli-fleet/fleet.ts';
import { elections, handovers, judgeTicks, ledgerOf, spread } from './fixtures/cli-fleet/judge.ts';
import { randomOf } from './fixtures/random.ts';
import { IS_LONG, report } from './fixtures/cron-proof-fleet.ts';

const TTL_MS = 1000;
const CUSTOMERS = ['a', 'b', 'c', 'd', 'e'];
const LONG_MS = 180_000;
const seed = Number(process.env['LEASEHOLD_SEED'] ?? Date.now() % 2 ** 31);

/** Three processes, and what is done to them. */
class Ordeal {
  readonly fleet: Fleet;
  readonly random = randomOf(seed);
  readonly faults: Fault[] = [];
  readonly ends: End[] = [];
  atWork: Child[] = [];

  constructor(fleet: Fleet) {
    this.fleet = fleet;
  }

  any(): Child {
    return this.atWork[Math.floor(this.random() * this.atWork.length)] as Child;
  }

  /** The process that has just begun a tick, in mid-run. */
  async leader(): Promise<Child> {
    const now = trueNow();
    const { pid } = await this.fleet.tells(
      (its) => its.what === 'begins' && its.job === 'every-second' && its.at > now,
    );
    return this.atWork.find((member) => member.pid === pid) as Child;
  }

  async kill(victim: Child): Promise<void> {
    this.faults.push({ pid: victim.pid, kind: 'kill', at: trueNow() });
    await victim.kill9();
    this.atWork = this.atWork.filter((member) => member !== victim);
  }

  /** For longer than its leases last. */
  async stop(victim: Child): Promise<void> {
    this.faults.push({ pid: victim.pid, kind: 'stop', at: trueNow() });
    await victim.stop();
    await sleep(TTL_MS * (1.5 + this.random()));
    victim.cont();
  }

  async start(): Promise<void> {
    this.atWork.push(await this.fleet.start());
  }

  /** Each gets a successor, and then the signal. */
  async roll(): Promise<void> {
    for (const leaver of [...this.atWork]) {
      await this.start();
      await this.end(leaver);
    }
  }

  async end(leaver: Child): Promise<void> {
    this.atWork = this.atWork.filter((member) => member !== leaver);
    this.ends.push(await this.fleet.end(leaver));
  }
}

async function shortOrdeal(ordeal: Ordeal): Promise<void> {
  await ordeal.kill(await ordeal.leader());
  const started = ordeal.start();
  await ordeal.stop(await ordeal.leader());
  await started;
  await ordeal.roll();
}

async function longOrdeal(ordeal: Ordeal): Promise<void> {
  const until = trueNow() + LONG_MS;
  while (trueNow() < until) {
    await sleep(3000 * ordeal.random());
    const victim = ordeal.random() < 0.5 ? await ordeal.leader() : ordeal.any();
    const which = ordeal.random();
    if (which < 0.35) {
      await ordeal.kill(victim);
      await ordeal.start();
    } else if (which < 0.7) {
      await ordeal.stop(victim);
    } else {
      await ordeal.roll();
    }
  }
}

test(
  `three processes that are killed, stopped and replaced lose no tick and no job, double none, and hand over at once (LEASEHOLD_SEED=${seed})`,
  { timeout: IS_LONG ? LONG_MS + 120_000 : 90_000 },
  async () => {
    await using redis = await startRedis();
    await using fleet = new Fleet(redis.url, 'leasehold.yaml');
    const ordeal = new Ordeal(fleet);
    const [payments, imports] = [fleet.queue('payments'), fleet.queue('imports')];
    // As many as there are ever processes, and those in the hands of the dead.
    await imports.addBulk(Array.from({ length: 12 }, () => ({ name: 'import', data: { customer: '', workMs: 0 } })));
    let added = 0;
    const adding = setInterval(() => {
      const customer = CUSTOMERS[added++ % CUSTOMERS.length] as string;
      void payments.add('pay', { customer, workMs: 20 + (added % 7) * 10 });
    }, 50);
    try {
      await Promise.all([ordeal.start(), ordeal.start(), ordeal.start()]);
      await (IS_LONG ? longOrdeal : shortOrdeal)(ordeal);
    } finally {
      clearInterval(adding);
    }

    // In peace again, they go on and finish everything.
    const calm = trueNow();
    await fleet.tells(({ what, job, tick }) => what === 'ends' && job === 'every-second' && Number(tick) > calm);
    await fleet.tells(({ what, job, tick }) => what === 'ends' && job === 'insistent' && Number(tick) > calm);
    await expect.poll(() => payments.getCompletedCount(), { timeout: 60_000 }).toBe(added);
    const told = fleet.told();
    // Nobody is there any more to take over from these.
    const { ends } = ordeal;
    await Promise.all(ordeal.atWork.map((member) => fleet.end(member)));

    await using raw = await connectRedis(redis.url);
    const of = (job: string) => told.filter((its) => its.job === job);
    const every = await ledgerOf(raw, fleet.prefix, 'every-second');
    const ticks = judgeTicks(of('every-second'), every.writes, fleet.members, ordeal.faults, TTL_MS);

    const insistent = await ledgerOf(raw, fleet.prefix, 'insistent');
    const first = of('insistent')[0]?.tick as number;
    const due = Array.from({ length: Math.floor((calm - first) / 4000) + 1 }, (_, n) => String(first + n * 4000));
    expect(Object.keys(insistent.effects).toSorted()).toEqual(expect.arrayContaining(due));
    const attempts = insistent.writes.filter(({ what }) => what === 'begin').map((its) => `${its.tick} ${its.attempt}`);
    expect(attempts).toEqual([...new Set(attempts)]);

    let again = 0;
    const paid: string[] = [];
    for (const customer of CUSTOMERS) {
      const { writes, effects } = await ledgerOf(raw, fleet.prefix, `customer:${customer}`);
      paid.push(...Object.keys(effects));
      again += writes.filter(({ what }) => what === 'end').length - Object.keys(effects).length;
    }
    expect(paid.map(Number).toSorted((a, b) => a - b)).toEqual(Array.from({ length: added }, (_, n) => n + 1));
    // Once, but for those in the hands of a process that was killed or stopped between its last write and the queue's.
    expect(again).toBeLessThanOrEqual(4 * ordeal.faults.length);
    await ledgerOf(raw, fleet.prefix, 'imports');
    await ledgerOf(raw, fleet.prefix, 'watch');

    const inLine = [...handovers(of('imports'), ends), ...elections(fleet.members, 'exports', ends)];
    const asking = handovers(of('watch'), ends);
    report('a fleet on one file', {
      seed,
      seconds: Math.round((trueNow() - (told[0]?.at ?? 0)) / 1000),
      kills: ordeal.faults.filter(({ kind }) => kind === 'kill').length,
      stops: ordeal.faults.filter(({ kind }) => kind === 'stop').length,
      sigterms: ends.length,
      ticks,
      insistent: { due: due.length, attempts: attempts.length },
      payments: { added, writtenAgain: again },
      refused: told.filter(({ what }) => what === 'refused').length,
      nextInLineMs: {
        afterRelease: spread(inLine.map(({ fromReleaseMs }) => fromReleaseMs)),
        afterClosed: spread(inLine.map(({ fromClosedMs }) => fromClosedMs)),
        afterExit: spread(inLine.map(({ fromExitMs }) => fromExitMs)),
      },
      nextInItsRhythmMs: { afterExit: spread(asking.map(({ fromExitMs }) => fromExitMs)) },
    });
    expect(inLine.length).toBeGreaterThanOrEqual(1);
    for (const { fromClosedMs, resource } of inLine) expect(fromClosedMs, resource).toBeLessThan(200);
    for (const { fromExitMs } of asking) expect(fromExitMs).toBeLessThan(1000 + 200);
  },
);
