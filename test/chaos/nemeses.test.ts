import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, test } from 'vitest';

import { LiveStage } from './live-stage.ts';
import { missing } from './needs.ts';
import type { Nemesis } from './nemesis.ts';
import { nemeses } from './nemeses/index.ts';

/** All of them, which takes minutes; else one of each kind, and on one stage. */
const IS_LONG = process.env['LEASEHOLD_LONG'] === '1';
const SAMPLE = new Set([
  ...['kill', 'pause-short', 'partition-held', 'duplicate', 'commit-reply-lost', 'store-delete', 'store-full'],
  ...['store-client-kill', 'postgres-terminate', 'revoke'],
]);

/** Those that need the same of a stage share one. */
function casts(): ReadonlyMap<string, readonly Nemesis[]> {
  const able = nemeses.filter(({ name, needs = [] }) =>
    IS_LONG ? needs.every((need) => missing(need) === null) : SAMPLE.has(name),
  );
  const groups = new Map<string, Nemesis[]>();
  for (const nemesis of able) {
    const key = (nemesis.needs ?? []).join(' and ') || 'nothing special';
    groups.set(key, [...(groups.get(key) ?? []), nemesis]);
  }
  return groups;
}

/** Resolves when each resource has been written to once more. */
async function worksAgain(stage: LiveStage): Promise<void> {
  const before = await stage.ledger.versions();
  const isBehind = (now: ReadonlyMap<string, number>): boolean =>
    stage.qualified.some((resource) => (now.get(resource) ?? 0) <= (before.get(resource) ?? 0));
  while (isBehind(await stage.ledger.versions())) await sleep(20);
}

/** As often as it takes until there is something to strike. */
async function struckBy(nemesis: Nemesis, stage: LiveStage): Promise<number> {
  for (;;) {
    const strike = await nemesis.strike(stage);
    if (strike === null) {
      await sleep(50);
      continue;
    }
    await sleep(strike.forMs);
    const healed = await strike.heal();
    return typeof healed === 'number' ? healed : healed.effect;
  }
}

describe.each([...casts()])('on a stage with %s', (needs, cast) => {
  test(
    `each of ${cast.length} faults has its effect, and the work goes on when it is over`,
    { timeout: 600_000 },
    async () => {
      await using stage = await LiveStage.open({
        ...{ seed: 1, workload: 'core', ttlMs: 600, seats: 2, resources: ['first', 'second'], queue: null, bug: null },
        needs: new Set(cast.flatMap((nemesis) => nemesis.needs ?? [])),
        postgresUrl: inject('postgresUrl'),
      });
      const effects: Record<string, number> = {};
      for (const nemesis of cast) {
        effects[nemesis.name] = await struckBy(nemesis, stage);
        await worksAgain(stage);
      }
      if (IS_LONG) console.log(needs, effects);
      expect(Object.entries(effects).filter(([, effect]) => !(effect > 0))).toEqual([]);
      await Promise.all(stage.seats.map((seat) => seat.close()));
      expect(stage.seats.flatMap(({ troubles }) => troubles)).toEqual([]);
    },
  );
});
