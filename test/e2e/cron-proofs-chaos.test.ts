import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, test } from 'vitest';

import type { Child } from '../support/child.ts';
import { Fleet, IS_LONG, order, report, SECOND_MS, trueNow } from './fixtures/cron-proof-fleet.ts';
import { randomOf } from './fixtures/random.ts';

const url = inject('redisUrl');
const TTL_MS = 1000;
const DURATION_MS = IS_LONG ? 120_000 : 15_000;
const RETRY = 1;
const seed = Number(process.env['LEASEHOLD_SEED'] ?? Date.now() % 2 ** 31);

/** Neither the ledger nor the runs have a token that goes back, a tick that goes back, or one attempt of a tick twice. */
async function checkHistory(fleet: Fleet, job: string): Promise<{ ran: number; written: number; again: number }> {
  const ledger = await fleet.ledger(job);
  const runs = fleet.runs(job);
  for (const history of [ledger, runs]) {
    const tokens = history.map(({ fencingToken }) => fencingToken);
    expect(tokens, job).toEqual(tokens.toSorted((a, b) => a - b));
    const ticks = history.map(({ tick }) => tick);
    expect(ticks, job).toEqual(ticks.toSorted((a, b) => a - b));
  }
  // What was killed may have run and not have said so: the ledger knows of all that wrote.
  const grants = new Map(
    [...runs, ...ledger].map(({ fencingToken, tick, attempt }) => [fencingToken, `${tick} ${attempt}`]),
  );
  expect(new Set(grants.values()).size, job).toBe(grants.size);
  const ends = ledger.filter(({ what }) => what === 'end').map(({ tick }) => tick);
  return {
    ran: new Set(runs.map(({ tick }) => tick)).size,
    written: new Set(ends).size,
    again: runs.filter(({ attempt }) => attempt > 1).length,
  };
}

describe(`three processes that are killed, stopped, and told to stop and start (LEASEHOLD_SEED=${seed})`, () => {
  test('run no tick twice, and no token goes back', { timeout: DURATION_MS + 60_000 }, async () => {
    const random = randomOf(seed);
    await using fleet = new Fleet({
      url,
      ledgerUrl: url,
      ttl: TTL_MS,
      jobs: [
        { name: 'once', body: { for: 300 } },
        { name: 'again', retry: RETRY, body: { for: 300 } },
      ],
    });
    const atWork = new Set(await fleet.startAll({}, {}, {}));
    const began = trueNow();
    const deeds = { kill: 0, stop: 0, pause: 0 };
    const under = new Set<Promise<unknown>>();

    async function kill(victim: Child): Promise<Child> {
      await victim.kill9();
      return fleet.start();
    }
    async function stop(victim: Child): Promise<Child> {
      const forMs = TTL_MS * (1.2 + 2 * random());
      await victim.stop();
      await sleep(forMs);
      victim.cont();
      return victim;
    }
    async function pause(victim: Child): Promise<Child> {
      order(victim, { op: 'stop' });
      await sleep(500 + 1500 * random());
      order(victim, { op: 'start' });
      return victim;
    }

    while (trueNow() < began + DURATION_MS) {
      await sleep(300 + 900 * random());
      while (atWork.size === 0) await Promise.race(under);
      const victim = [...atWork][Math.floor(random() * atWork.size)] as Child;
      const deed = (['kill', 'stop', 'pause'] as const)[Math.floor(random() * 3)] ?? 'pause';
      atWork.delete(victim);
      deeds[deed]++;
      const doing = { kill, stop, pause }[deed](victim).then((member) => atWork.add(member));
      under.add(doing);
      void doing.then(
        () => under.delete(doing),
        () => {}, // is heard of in the end
      );
    }
    await Promise.all(under);
    // In peace again, they go on.
    const calm = trueNow();
    await fleet.run(({ job, tick }) => job === 'once' && tick > calm + SECOND_MS);
    await fleet.shutDown([...atWork]);

    const [once, again] = await Promise.all([checkHistory(fleet, 'once'), checkHistory(fleet, 'again')]);
    expect(Math.max(...fleet.runs('once').map(({ attempt }) => attempt))).toBe(1);
    expect(Math.max(...fleet.runs('again').map(({ attempt }) => attempt))).toBeLessThanOrEqual(1 + RETRY);
    expect(once.written).toBeGreaterThan(DURATION_MS / SECOND_MS / 5);
    report('chaos', {
      seed,
      seconds: DURATION_MS / SECOND_MS,
      ...deeds,
      once,
      again,
      refused: fleet.said('refused').length,
      lost: fleet.said('lost').length,
    });
  });
});
