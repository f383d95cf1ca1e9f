/**
 * Under chaos the metrics say what happened: each simulated manager has a registry of its own, and when a run is over every
 * counter is compared with the history of that process (`metrics-witness.ts` has the rules).
 */

import { Histogram, type Metric } from 'prom-client';
import { expect, test } from 'vitest';
import { MetricsWitness, nameOf, textOf } from './metrics-witness.ts';
import { planOf } from './plan.ts';
import { simulate } from './run.ts';

const SEEDS = 240;
// Nothing here waits: it takes as long as the machine is busy.
const LONG_MS = 600_000;

/** In which runs each metric was more than nothing. */
const runsOf = new Map<string, number[]>();
let told = new Map<string, number>();

async function disagreements(seed: number, change?: (metric: Metric) => void): Promise<readonly string[]> {
  const witness = new MetricsWitness(change);
  const { history, problems } = await simulate(planOf(seed), undefined, witness);
  told = new Map();
  return [...problems, ...(await witness.disagreements(history, told))].map((each) => `seed ${seed}: ${each}`);
}

/** Without the class of the resource, which is the same code for each. */
function kindOf(name: string): string {
  return name.replace(/class=\w+,?/, '');
}

test(`what each manager counts is what its history says, in ${SEEDS} runs`, { timeout: LONG_MS }, async () => {
  for (let seed = 0; seed < SEEDS; seed++) {
    expect(await disagreements(seed)).toEqual([]);
    const kinds = new Set([...told].filter(([, value]) => value > 0).map(([name]) => kindOf(name)));
    for (const kind of kinds) runsOf.set(kind, [...(runsOf.get(kind) ?? []), seed]);
  }
  const counted = [...runsOf.keys()].filter((kind) => kind.startsWith('leasehold_operations_total'));
  const all = {
    acquire: ['granted', 'busy', 'tick', 'cancelled', 'failed'],
    extend: ['extended', 'revoked', 'lost', 'failed'],
    release: ['released', 'lost', 'failed'],
    cancel: ['ended', 'nothing', 'failed'],
    adopt: ['granted', 'failed'],
    ...{ expire: ['lost'], reject: ['stale'], force_release: ['released', 'refused'] },
  };
  for (const [operation, outcomes] of Object.entries(all)) {
    for (const outcome of outcomes) {
      expect(counted).toContain(`leasehold_operations_total{operation=${operation},outcome=${outcome}}`);
    }
  }
  for (const reason of [
    'expired',
    'superseded',
    'missing',
    'fenced',
    'store-unreachable',
    'clock-step',
    'force-released',
  ])
    expect([...runsOf.keys()]).toContain(`leasehold_lost_total{reason=${reason}}`);
  for (const reason of ['revoked', 'max-hold', 'caller'])
    expect([...runsOf.keys()]).toContain(`leasehold_cancelled_total{reason=${reason}}`);
  expect([...runsOf.keys()]).toContain('leasehold_stale_writes_total{fence=ledger}');
});

type Count = (labels: object, ...rest: unknown[]) => void;

/** Has one metric counted so many times instead of once. */
function miscounting(kind: string, times: number): (metric: Metric) => void {
  const [name = '', labels = ''] = kind.split('{');
  return (metric) => {
    if (!name.startsWith(nameOf(metric))) return;
    const target = metric as unknown as Record<'inc' | 'observe', Count>;
    const method = metric instanceof Histogram ? 'observe' : 'inc';
    const own = target[method].bind(target);
    target[method] = (given, ...rest) => {
      const isMeant = kindOf(`{${textOf(given)}}`) === `{${labels}`;
      for (let time = 0; time < (isMeant ? times : 1); time++) own(given, ...rest);
    };
  };
}

test('each metric that is not counted, or counted twice, is found out', { timeout: LONG_MS }, async () => {
  const missed: string[] = [];
  for (const [kind, seeds] of [...runsOf, ['leasehold_held{}', [0, 1, 2]] as const]) {
    for (const times of [0, 2]) {
      let isFound = false;
      for (const seed of seeds.slice(0, 20)) {
        isFound = (await disagreements(seed, miscounting(kind, times))).length > 0;
        if (isFound) break;
      }
      if (!isFound) missed.push(`${kind} counted ${times} times`);
    }
  }
  expect(missed).toEqual([]);
});
