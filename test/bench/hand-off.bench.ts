import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Benchmark, Context } from './benchmark.ts';
import { BARE } from './acquire-release.bench.ts';
import { fitLibraries, lockPackages } from './contestants.ts';
import type { Hosted } from './host.ts';
import { interleave, tableOf, valuesOf, type Contestant, type Figures } from './interleave.ts';
import { jain, median, percentile, sorted, sum } from './numbers.ts';
import { watch } from './redis-figures.ts';
import { rowOf, target } from './report.ts';
import { nowUs } from './side.ts';
import type { HandOffSetup, Round, Turn } from './variants/hand-off.ts';

const CLIENTS = 8;
const HOLD_MS = 2;
/** Two who ask within this time may come to the store in either order. */
const SAME_TIME_US = 5000;

interface Variant extends Contestant {
  readonly variant: string;
}

export const benchmark: Benchmark = {
  name: 'hand-off',
  title: 'Hand-off to the next who waits',
  method: `From the release by one to the moment when the next has it, on a clock that the processes share. First one that waits and one that releases, at random moments, for all libraries with their own defaults of polling. Then ${CLIENTS} clients in two processes, each with connections of its own, all in the queue again right after their turns of ${HOLD_MS} ms. The floor is a message to the next and one SET; who is next is known there. Our two scripts, sent by hand, are the release, the message, and the script by which the next becomes owner, over plain clients: no engine can be faster. Fairness is Jain’s index of their turns: 1 when all had as many, 1/8 when one had them all. An overtaking is a turn of one who asked more than ${SAME_TIME_US / 1000} ms after another who still waits.`,
  packages: lockPackages,
  async run(context) {
    const url = (await context.redis()).url;
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const fit = fitLibraries(context).map(({ name }) => name);
    // The last one polls so often that a moment is enough.
    const libraries = context.pick({ full: fit, quick: fit, smoke: fit.slice(-1) });
    const variants: Variant[] = [
      { name: 'floor: a message + SET', kind: 'floor', variant: 'floor' },
      { name: 'Leasehold', kind: 'ours', variant: 'leasehold' },
      ...libraries.map((name) => ({ name, kind: 'peer' as const, variant: name })),
      { name: BARE, kind: 'other', variant: 'bare scripts' },
    ];
    const sides = await Promise.all(
      [0, 1].map((side) => {
        const clients = Array.from({ length: CLIENTS }, (_, client) => client).filter((client) => client % 2 === side);
        const setup: HandOffSetup = { url, clients, of: CLIENTS, holdMs: HOLD_MS, libraries };
        return context.host('hand-off', setup);
      }),
    );
    const [first, second] = sides as [Hosted, Hosted];
    let rounds = 0;
    const named = (variant: string, until = 0): Round => ({ variant, resource: `${variant}-${rounds++}`, until });

    const hops = context.pick({ full: 5, quick: 2, smoke: 1 });
    const single = await interleave(
      variants,
      { rounds: context.pick({ full: 6, quick: 2, smoke: 1 }), warmUps: context.pick({ full: 1, quick: 0, smoke: 0 }) },
      async ({ variant }) => {
        const tookUs: number[] = [];
        for (let hop = 0; hop < hops; hop++) tookUs.push(await handOff(first, second, named(variant), context));
        return { us: median(tookUs), worstUs: Math.max(...tookUs) };
      },
    );

    const sliceMs = context.pick({ full: 1200, quick: 400, smoke: 60 });
    const contend = async (variant: string): Promise<readonly Turn[]> => {
      const round = named(variant, nowUs() + sliceMs * 1000);
      const both = Promise.all(sides.map((side) => side.call<Turn[]>('contend', round)));
      if (variant === 'floor') await admin.publish('floor:0', '');
      return (await both).flat().sort((a, b) => a.begun - b.begun);
    };
    const contended = await interleave(
      variants,
      {
        rounds: context.pick({ full: 8, quick: 2, smoke: 1 }),
        warmUps: context.pick({ full: 1, quick: 0, smoke: 0 }),
      },
      async ({ variant }) => figuresOf(await contend(variant)),
    );

    // Counted apart: to watch makes the server slower.
    const commands = new Map<string, Figures>();
    for (const { name, variant } of variants) {
      let turns = 1;
      const { sent, inScripts } = await watch(admin, async () => (turns = (await contend(variant)).length));
      commands.set(name, {
        sent: sum([...sent.values()]) / turns,
        inScripts: sum([...inScripts.values()]) / turns,
      });
    }
    const withCommands = contended.map(({ contestant, slices }) => ({
      contestant,
      slices: slices.map((slice) => ({ ...slice, ...commands.get(contestant.name) })),
    }));

    const alone = tableOf(single, {
      title: 'one waits, the other releases',
      unit: 'µs',
      better: 'less',
      figure: 'us',
      more: { 'worst of a round µs': 'worstUs' },
    });
    const crowd = tableOf(withCommands, {
      title: `${CLIENTS} clients: idle time of the resource when it goes to another client`,
      unit: 'µs',
      better: 'less',
      figure: 'p50',
      more: { 'p99 µs': 'p99' },
    });
    const order = tableOf(withCommands, {
      title: `${CLIENTS} clients: order and fairness`,
      unit: 'Jain index',
      better: 'more',
      figure: 'jain',
      compare: false,
      more: {
        'back to the last owner %': 'backPercent',
        'overtakings %': 'overtakenPercent',
        'longest wait ms': 'longestMs',
        'turns/s': 'perSecond',
        'commands sent for each': 'sent',
        'and inside scripts': 'inScripts',
      },
    });
    const of = (name: string, figure: string): number[] =>
      valuesOf(withCommands.find(({ contestant }) => contestant.name === name)?.slices ?? [], figure);
    const floor = variants[0]?.name ?? '';
    const p99 = median(of('Leasehold', 'p99').map((own, round) => own / (of(floor, 'p99')[round] ?? NaN)));
    return {
      tables: [alone, crowd, order],
      targets: [
        target('eight clients: p50 of the floor’s', 'at most', 1.5, rowOf(crowd, 'Leasehold')?.ratio?.median, '×'),
        target('eight clients: p99 of the floor’s', 'at most', 3, p99, '×'),
        target('overtakings', 'at most', 0, Math.max(...of('Leasehold', 'overtakenPercent')), '%'),
        target('commands sent for an acquisition', 'at most', 4, of('Leasehold', 'sent')[0]),
      ],
    };
  },
};

async function handOff(first: Hosted, second: Hosted, round: Round, context: Context): Promise<number> {
  await first.call('hold', round);
  const waiting = second.call<number>('wait', round);
  // At no moment that a poll could know.
  await sleep(context.pick({ full: 60 + Math.random() * 200, quick: 60 + Math.random() * 200, smoke: 10 }));
  const released = await first.call<number>('release');
  return (await waiting) - released;
}

function figuresOf(all: readonly Turn[]): Figures {
  // The first ones came while the others were still starting.
  const turns = all.slice(CLIENTS);
  const idle: number[] = [];
  let back = 0;
  for (const [index, turn] of turns.entries()) {
    const before = turns[index - 1];
    if (before === undefined) continue;
    if (before.client === turn.client) back++;
    else if (turn.asked < before.ended) idle.push(turn.begun - before.ended);
  }
  const overtakings = turns.filter(({ asked }, index) =>
    turns.slice(index + 1, index + 1 + CLIENTS).some((later) => later.asked < asked - SAME_TIME_US),
  ).length;
  const counts = Array.from({ length: CLIENTS }, (_, client) => turns.filter((turn) => turn.client === client).length);
  const [from, until] = [turns[0]?.begun ?? 0, turns.at(-1)?.ended ?? 0];
  return {
    ...(idle.length > 0 && { p50: percentile(sorted(idle), 0.5), p99: percentile(sorted(idle), 0.99) }),
    ...(turns.length > 0 && {
      jain: jain(counts),
      perSecond: (turns.length / (until - from)) * 1e6,
      backPercent: (back / Math.max(1, turns.length - 1)) * 100,
      overtakenPercent: (overtakings / turns.length) * 100,
      longestMs: Math.max(...turns.map(({ asked, begun }) => begun - asked)) / 1000,
    }),
  };
}
