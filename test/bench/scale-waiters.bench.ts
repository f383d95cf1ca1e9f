import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Benchmark } from './benchmark.ts';
import { fitLibraries, lockPackages } from './contestants.ts';
import type { Hosted } from './host.ts';
import { jain, percentile, sorted, sum } from './numbers.ts';
import { serverFigures, type ServerFigures } from './redis-figures.ts';
import { type Kind, rowOnce, type Table, target } from './report.ts';
import { nowUs } from './side.ts';
import type { Turns } from './variants/scale-waiters.ts';

const text = (value: number): string => Math.round(value).toLocaleString('en');
/** Where there is no queue: two who ask within this time count as one. */
const SAME_TIME_US = 20_000;

export interface Turn {
  readonly client: number;
  readonly asked: number;
  readonly queued: number;
  readonly begun: number;
  readonly ended: number;
}

export interface Level {
  readonly waiters: number;
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly sent: number;
  readonly inScripts: number;
  readonly redisUs: number;
  readonly redisPercent: number;
  readonly back: number;
  readonly overtaken: number;
  readonly jain: number;
  readonly longestMs: number;
}

/** Where they are. */
interface Crowd {
  readonly name: string;
  readonly kind: Kind;
  readonly sides: readonly Hosted[];
  /** What it sends from outside of scripts. */
  readonly sent: readonly string[];
}

export const benchmark: Benchmark = {
  name: 'scale-waiters',
  title: 'Many who wait for one resource',
  method: `So many wait while one has it; each gives it back at once and asks again, so that the queue stays as long as it is. Over several processes with one manager each, and all in one process. A hand-off is from the call of release() by one to the moment when the next has it, if that one was waiting by then, on a clock that the processes share. Measured in a slice after all have asked. An overtaking is a turn of one who asked when another who still waits knew already that it stands in the queue; with those who have no queue, when another had been asking for ${SAME_TIME_US / 1000} ms. Those poll, with their own defaults.`,
  packages: lockPackages,
  async run(context) {
    const { url } = await context.redis();
    const admin = new Redis(url);
    context.onEnd(async () => admin.disconnect());
    const many = context.pick({ full: 10, quick: 4, smoke: 2 });
    const sizes = context.pick({ full: [1, 10, 100, 1000], quick: [1, 1000], smoke: [1, 4] });
    const sliceMs = context.pick({ full: 3000, quick: 800, smoke: 50 });
    const wanted = context.pick({ full: ['redlock 4', 'redis-semaphore'], quick: ['redis-semaphore'], smoke: [] });
    const peers = fitLibraries(context).filter(({ name }) => wanted.includes(name));
    const sides = (count: number, variant: string): Promise<readonly Hosted[]> =>
      Promise.all(Array.from({ length: count }, () => context.host('scale-waiters', { url, variant })));
    const ours = { kind: 'ours', sent: ['evalsha'] } as const;
    const crowds: Crowd[] = [
      { name: `Leasehold, ${many} processes`, ...ours, sides: await sides(many, 'leasehold') },
      { name: 'Leasehold, one process', ...ours, sides: await sides(1, 'leasehold') },
    ];
    for (const { name } of peers) {
      const sent = name === 'redis-semaphore' ? ['set', 'evalsha'] : ['evalsha', 'eval'];
      crowds.push({ name: `${name}, ${many} processes`, kind: 'peer', sent, sides: await sides(many, name) });
    }

    const results = new Map<Crowd, Level[]>(crowds.map((crowd) => [crowd, []]));
    let resources = 0;
    for (const waiters of sizes) {
      for (const crowd of crowds) {
        const resource = `crowd-${resources++}`;
        results.get(crowd)?.push(await contend(admin, crowd, { waiters, resource, sliceMs }));
        // Whoever polls may be late to see the end.
        await admin.flushall();
      }
    }
    const levels = (index: number): readonly Level[] => results.get(crowds[index] as Crowd) ?? [];
    const [spread, alone] = [levels(0), levels(1)];
    const last = spread.at(-1) as Level;
    // With one who waits, it is often not back in the queue in time: there is none.
    const first = (spread.length > 2 ? spread[1] : spread[0]) as Level;
    const line = (crowd: Crowd, of: (level: Level) => number) => ({
      name: crowd.name,
      points: (results.get(crowd) ?? []).map((level) => [level.waiters, of(level)] as const),
    });
    return {
      tables: crowds.map((crowd) => table(crowd, results.get(crowd) ?? [])),
      curves: [
        {
          title: 'Hand-offs to another client',
          x: 'waiters',
          y: 'a second',
          lines: crowds.map((crowd) => line(crowd, ({ perSecond, back }) => perSecond * (1 - back / 100))),
          bend: `Leasehold's hand-offs go from ${text(first.perSecond)} a second with ${text(first.waiters)} who wait to ${text(last.perSecond)} with ${text(last.waiters)}, at ${first.sent.toFixed(1)} and ${last.sent.toFixed(1)} commands for each: nobody but the next is woken. What those who wait cost besides is one question each in a third of the ttl.`,
        },
        {
          title: 'From the release to the next who has it, p50',
          x: 'waiters',
          y: 'ms',
          lines: crowds.map((crowd) => line(crowd, ({ p50Us }) => p50Us / 1000)),
        },
        {
          title: 'Commands sent for a hand-off to another client',
          x: 'waiters',
          y: 'commands',
          lines: crowds.map((crowd) => line(crowd, ({ sent, back }) => sent / (1 - back / 100))),
        },
      ],
      targets: [
        target(
          `overtakings among ${text(last.waiters)}`,
          'at most',
          0,
          Math.max(last.overtaken, alone.at(-1)?.overtaken ?? NaN),
          '%',
        ),
        target(
          `commands for a hand-off among ${text(last.waiters)}, of those among ${text(first.waiters)}`,
          'at most',
          1.5,
          last.sent / first.sent,
          '×',
        ),
        target(
          `Redis CPU for a hand-off among ${text(last.waiters)}, of that among ${text(first.waiters)}`,
          'at most',
          1.5,
          last.redisUs / first.redisUs,
          '×',
        ),
      ],
      constants: {
        waiters: last.waiters,
        handOffsPerSecond: last.perSecond,
        handOffCommands: last.sent,
        handOffRedisUs: last.redisUs,
        handOffP50Us: last.p50Us,
        handOffP99Us: last.p99Us,
      },
    };
  },
};

interface Slice {
  readonly waiters: number;
  readonly resource: string;
  readonly sliceMs: number;
}

async function contend(admin: Redis, { sides, sent }: Crowd, { waiters, resource, sliceMs }: Slice): Promise<Level> {
  // Until all have asked: of those who poll nobody tells.
  const warmUpMs = Math.min(sliceMs, 200 + waiters);
  const until = nowUs() + (warmUpMs + sliceMs) * 1000;
  const clients = Array.from({ length: waiters + 1 }, (_, client) => client);
  const all = Promise.all(
    sides.map((side, index) =>
      side.call<Turns>('contend', {
        ...{ resource, until, holdMs: 0 },
        clients: clients.filter((client) => client % sides.length === index),
      }),
    ),
  );
  await sleep(warmUpMs);
  const [from, before] = [nowUs(), await serverFigures(admin)];
  await sleep((until - nowUs()) / 1000 - 5);
  const [to, after] = [nowUs(), await serverFigures(admin)];
  const turns = (await all).flatMap((its) => turnsOf(its)).sort((a, b) => a.begun - b.begun);
  return figuresOf(turns, { waiters, from, to, before, after, sent });
}

export function turnsOf({ turns }: Turns): Turn[] {
  const result: Turn[] = [];
  for (let at = 0; at < turns.length; at += 5) {
    const [client = 0, asked = 0, queued = NaN, begun = 0, ended = 0] = turns.subarray(at, at + 5);
    result.push({ client, asked, queued: Number.isNaN(queued) ? asked + SAME_TIME_US : queued, begun, ended });
  }
  return result;
}

interface Window {
  readonly waiters: number;
  readonly from: number;
  readonly to: number;
  readonly before: ServerFigures;
  readonly after: ServerFigures;
  readonly sent: readonly string[];
}

function figuresOf(all: readonly Turn[], { waiters, from, to, before, after, sent }: Window): Level {
  // Since when the first in the queue was there, of those who had their turns later.
  const earliest: number[] = Array.from({ length: all.length + 1 }, () => Infinity);
  for (let at = all.length - 1; at >= 0; at--)
    earliest[at] = Math.min(earliest[at + 1] as number, (all[at] as Turn).queued);
  const idle: number[] = [];
  const counts = Array.from({ length: waiters + 1 }, () => 0);
  let [count, back, overtaken, longest] = [0, 0, 0, 0];
  for (const [index, turn] of all.entries()) {
    const previous = all[index - 1];
    if (previous === undefined || turn.begun < from || turn.begun > to) continue;
    count++;
    counts[turn.client] = (counts[turn.client] ?? 0) + 1;
    longest = Math.max(longest, turn.begun - turn.asked);
    if (previous.client === turn.client) back++;
    else if (turn.asked < previous.ended) idle.push(turn.begun - previous.ended);
    if ((earliest[index + 1] as number) < turn.asked) overtaken++;
  }
  const called = (name: string): number => (after.calls.get(name) ?? 0) - (before.calls.get(name) ?? 0);
  const outside = sum(sent.map(called));
  const everything = sum([...after.calls.keys()].filter((name) => name !== 'info').map(called));
  const cpuUs = after.cpuUs - before.cpuUs;
  const ascending = sorted(idle);
  return {
    waiters,
    perSecond: (count / (to - from)) * 1e6,
    p50Us: percentile(ascending, 0.5),
    p99Us: percentile(ascending, 0.99),
    sent: outside / count,
    inScripts: (everything - outside) / count,
    redisUs: cpuUs / count,
    redisPercent: (cpuUs / (to - from)) * 100,
    back: (back / count) * 100,
    overtaken: (overtaken / count) * 100,
    jain: jain(counts),
    longestMs: longest / 1000,
  };
}

function table({ name, kind }: Crowd, levels: readonly Level[]): Table {
  return {
    title: name,
    unit: 'turns/s',
    better: 'more',
    isOnce: true,
    rows: levels.map((level) =>
      rowOnce(`${text(level.waiters)} waiting`, kind, level.perSecond, {
        'hand-off p50 ms': level.p50Us / 1000,
        'p99 ms': level.p99Us / 1000,
        'commands sent for each': level.sent,
        'and inside scripts': level.inScripts,
        'Redis CPU µs': level.redisUs,
        'Redis, % of a core': level.redisPercent,
        'back to the last owner %': level.back,
        'overtakings %': level.overtaken,
        'Jain index': level.jain,
        'longest wait ms': level.longestMs,
      }),
    ),
  };
}
