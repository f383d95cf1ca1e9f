// How long a resource stands idle between one owner and the next who waited for it, against the floor: a message that
// wakes the next and one SET. Eight clients in two processes, each with its own connections, all always in the queue.
import { Redis } from 'ioredis';
import { startChild, type Child } from '../support/child.ts';
import { startRedis } from '../support/redis-server.ts';
import type { Setup, Turn } from './fixtures/hand-off-clients.ts';
import { percentile } from './interleave.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? '15');
const ROUND_MS = Number(process.env['ROUND_MS'] ?? '1500');
const HOLD_MS = 2;
const CLIENTS = 8;

const variants = ['floor', 'lease'] as const;
type Variant = (typeof variants)[number];

interface Measured {
  readonly p50: number;
  readonly p99: number;
  readonly handOffs: number;
  readonly overtakings: readonly number[];
  readonly fairness: number;
  readonly commands: ReadonlyMap<string, number>;
}

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const admin = new Redis(server.url);

function startClients(process: number): Child {
  const clients = Array.from({ length: CLIENTS }, (_, client) => client).filter((client) => client % 2 === process);
  const setup: Setup = { url: server.url, clients, of: CLIENTS, holdMs: HOLD_MS };
  return startChild(new URL('./fixtures/hand-off-clients.ts', import.meta.url), {
    env: { HAND_OFF: JSON.stringify(setup) },
  });
}

await using first = startClients(0);
await using second = startClients(1);
const children = [first, second];
for (const child of children) await child.next('ready');

/** Calls of each command since the last reset, those that scripts made among them. */
async function commandCalls(): Promise<Map<string, number>> {
  const lines = (await admin.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, name = '', calls]) => [name, Number(calls)]));
}

/**
 * A turn overtakes when somebody who asked before it still waits. Gives by how many µs each did: when it is less than a
 * request takes, the two came to the store in the other order.
 */
function overtakings(turns: readonly Turn[]): number[] {
  return turns
    .map(
      ({ asked }, index) =>
        asked - Math.min(...turns.slice(index + 1, index + 1 + CLIENTS).map((later) => later.asked)),
    )
    .filter((us) => us > 0);
}

/** Jain's index: 1 when all had as many turns, 1 / n when one had them all. */
function jain(counts: readonly number[]): number {
  const sum = counts.reduce((total, count) => total + count, 0);
  return sum ** 2 / (counts.length * counts.reduce((total, count) => total + count ** 2, 0));
}

let rounds = 0;
async function measure(variant: Variant): Promise<Measured> {
  await admin.config('RESETSTAT');
  const until = Number(process.hrtime.bigint() / 1000n) + ROUND_MS * 1000;
  const round = { variant, resource: `hand-off-${rounds++}`, until };
  for (const child of children) child.send('round', round);
  if (variant === 'floor') await admin.publish('floor:0', '');
  const said = children.map((child) =>
    child.next<{ turns: Turn[]; type: string }>('turns', { timeoutMs: ROUND_MS + 15_000 }),
  );
  const all = (await Promise.all(said)).flatMap(({ turns }) => turns).sort((a, b) => a.begun - b.begun);
  const commands = await commandCalls();
  // The last ones had nobody behind them; the first ones came while the others were still starting.
  const turns = all.filter(({ ended }) => ended < until).slice(CLIENTS);
  const idle = turns
    .flatMap((turn, index) => {
      const before = turns[index - 1];
      return before !== undefined && turn.asked < before.ended ? [turn.begun - before.ended] : [];
    })
    .sort((a, b) => a - b);
  const counts = Array.from({ length: CLIENTS }, (_, client) => turns.filter((turn) => turn.client === client).length);
  return {
    p50: percentile(idle, 0.5),
    p99: percentile(idle, 0.99),
    handOffs: idle.length,
    overtakings: overtakings(turns),
    fairness: jain(counts),
    commands: new Map([...commands].map(([name, calls]) => [name, calls / all.length])),
  };
}

for (const variant of variants) await measure(variant);
const measured: Record<Variant, Measured[]> = { floor: [], lease: [] };
for (let round = 0; round < ROUNDS; round++) {
  for (const variant of variants) measured[variant].push(await measure(variant));
}

const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);
const median = (values: readonly number[]): number => percentile(sorted(values), 0.5);
const of = (variant: Variant, part: 'p50' | 'p99' | 'handOffs' | 'fairness'): number[] =>
  measured[variant].map((its) => its[part]);
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

console.log(
  `\nhand-off among ${CLIENTS} clients in 2 processes (${ROUNDS} rounds of ${ROUND_MS} ms, turns of ${HOLD_MS} ms)`,
);
console.log('         floor µs   lease µs   ÷ floor   p10–p90');
for (const part of ['p50', 'p99'] as const) {
  const ratios = sorted(of('lease', part).map((own, round) => own / (of('floor', part)[round] as number)));
  const cells = variants.map((variant) => String(Math.round(median(of(variant, part)))).padStart(8));
  const range = `${percentile(ratios, 0.1).toFixed(2)}–${percentile(ratios, 0.9).toFixed(2)}`;
  console.log(`${part}      ${cells.join('   ')}   ${percentile(ratios, 0.5).toFixed(2).padStart(7)}   ${range}`);
}
for (const variant of variants) {
  const overtaken = measured[variant].flatMap((its) => its.overtakings);
  const by = overtaken.length > 0 ? ` (by ${(Math.max(...overtaken) / 1000).toFixed(1)} ms at most)` : '';
  const fairness = of(variant, 'fairness');
  const jains = `Jain index ${median(fairness).toFixed(4)} (least ${Math.min(...fairness).toFixed(4)})`;
  console.log(
    `${variant}: ${total(of(variant, 'handOffs'))} hand-offs, ${overtaken.length} overtakings${by}, ${jains}`,
  );
}
const names = new Set(measured.lease.flatMap(({ commands }) => [...commands.keys()]));
const perTurn = [...names]
  .map((name) => [name, median(measured.lease.map(({ commands }) => commands.get(name) ?? 0))] as const)
  .filter(([, calls]) => calls >= 0.01)
  .sort(([, a], [, b]) => b - a);
console.log(
  `commands for each acquisition, those inside scripts too: ${perTurn.map(([name, calls]) => `${name} ${calls.toFixed(2)}`).join(', ')}`,
);
admin.disconnect();
