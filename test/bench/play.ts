import { services as programs, find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { startRedis } from '../support/redis-server.ts';
import type { Benchmark, Context } from './benchmark.ts';
import { hostAlone, hostHere } from './host.ts';
import { listen, machine, quiet, versions } from './machine.ts';
import { rounded, type Spread } from './numbers.ts';
import type { Curve, LeftOut, Report, Row, Size, Table } from './report.ts';

export interface PlayOptions {
  readonly size: Size;
  /** For a look: a database that is there already, instead of a server of our own. */
  readonly database?: { readonly url: string; readonly port: number };
}

/** How long the machine may take to become quiet. */
const PATIENCE_MS: Readonly<Record<Size, number>> = { full: 5000, quick: 1000, smoke: 0 };

/** One benchmark from its start to its end. What it has opened is closed, whatever happens. */
export async function play(benchmark: Benchmark, { size, database }: PlayOptions): Promise<Report> {
  const ends: (() => Promise<unknown>)[] = [];
  const leftOut: LeftOut[] = [];
  const context: Context = {
    size,
    leftOut,
    pick: (choice) => choice[size],
    onEnd: (end) => void ends.push(end),
    async redis() {
      const server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
      ends.push(() => server.stop());
      return server;
    },
    async postgres({ fsync }) {
      if (database !== undefined) return database;
      const server = await startPostgres({ bin: pathOf('postgres'), args: ['-c', `fsync=${fsync}`] });
      ends.push(() => server.stop());
      return server;
    },
    async host(side, setup, options = {}) {
      const hosted = await (size === 'smoke' && options.alone !== true ? hostHere : hostAlone)(side, setup, options);
      ends.push(() => hosted.close());
      return hosted;
    },
  };
  const before = await quiet(PATIENCE_MS[size]);
  const heard = listen();
  const from = performance.now();
  try {
    const { tables, targets, curves, constants } = await benchmark.run(context);
    return {
      name: benchmark.name,
      title: benchmark.title,
      method: benchmark.method,
      size,
      date: new Date().toISOString().slice(0, 10),
      tookS: Math.round((performance.now() - from) / 1000),
      machine: machine(),
      versions: versions(benchmark.packages, {
        redis: pathOf('redis'),
        ...(benchmark.packages.includes('pg') && { postgres: pathOf('postgres') }),
      }),
      noise: { before, during: heard() },
      tables: tables.map(roundedTable),
      ...(curves !== undefined && { curves: curves.map(roundedCurve) }),
      ...(constants !== undefined && {
        constants: Object.fromEntries(Object.entries(constants).map(([name, value]) => [name, rounded(value)])),
      }),
      targets: targets.map((target) => ({ ...target, measured: rounded(target.measured) })),
      leftOut,
    };
  } finally {
    for (const end of ends.splice(0).toReversed()) await end();
  }
}

function pathOf(name: keyof typeof programs): string {
  const { path } = find(name, thisMachine);
  if (path === null) throw new Error(`no ${programs[name].name}`);
  return path;
}

function roundedTable(table: Table): Table {
  const spread = ({ median, p10, p90 }: Spread): Spread => ({
    median: rounded(median),
    p10: rounded(p10),
    p90: rounded(p90),
  });
  const row = ({ value, ratio, more, ...rest }: Row): Row => ({
    ...rest,
    value: spread(value),
    ratio: ratio === null ? null : spread(ratio),
    more: Object.fromEntries(Object.entries(more).map(([column, its]) => [column, rounded(its)])),
  });
  return { ...table, rows: table.rows.map(row) };
}

function roundedCurve({ lines, ...rest }: Curve): Curve {
  return {
    ...rest,
    lines: lines.map(({ name, points }) => ({
      name,
      points: points.map(([x, y]) => [rounded(x), rounded(y)] as const),
    })),
  };
}
