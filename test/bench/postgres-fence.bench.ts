import { installSchema } from '@leasehold/core/postgres';
import pg from 'pg';

import { TcpProxy } from '../support/proxy.ts';
import type { Benchmark, Context } from './benchmark.ts';
import { hostAll, type HostedContestant } from './contestants.ts';
import { interleave, tableOf, type Contestant, type Figures } from './interleave.ts';
import { percentile, sorted } from './numbers.ts';
import { rowOf, target, type Table } from './report.ts';
import type { PostgresSetup } from './variants/postgres-fence.ts';

const ways = [
  { name: 'floor: begin, update, commit', kind: 'floor', variant: 'floor' },
  { name: 'Leasehold fence.write', kind: 'ours', variant: 'fence.write' },
  { name: 'own transaction with guardSql', kind: 'ours', variant: 'guardSql' },
  { name: 'own transaction with select 1', kind: 'other', variant: 'select 1' },
  { name: 'our statements, sent by hand', kind: 'other', variant: 'by hand' },
  { name: 'the row locked, along with begin', kind: 'other', variant: 'lock with begin' },
  { name: 'the row locked, prepared, along with begin', kind: 'other', variant: 'prepared lock with begin' },
  { name: 'select 1 along with begin', kind: 'other', variant: 'select 1 with begin' },
] as const;

export const benchmark: Benchmark = {
  name: 'postgres-fence',
  title: 'The PostgreSQL fence',
  method:
    'An update of one row in a transaction: through the fence, in an own transaction that begins with the fence’s statement, and without it. Median latency of a slice. The row of `select 1` shows what any further statement costs in a round trip of its own. The rows below are what the fence is made of, by hand over the same client: all that `fence.write` sends; of it only the look at the fence’s row, and its lock, in the message of BEGIN, as text and as a prepared statement; and a statement that does nothing there. A few µs weigh most where the server is near and does not wait for its disk.',
  packages: ['pg'],
  async run(context) {
    const count = context.pick({ full: 100, quick: 60, smoke: 3 });
    const tables: Table[] = [];
    const near = await context.postgres({ fsync: 'on' });
    await prepare(near.url);
    tables.push(await compare(context, near.url, 'fsync on, one at a time', 1, count));
    if (context.size === 'full') {
      tables.push(await compare(context, near.url, 'fsync on, ten at once', 10, count));
      const link = await TcpProxy.start({ port: near.port });
      context.onEnd(() => link.close());
      link.delay({ up: 1 });
      const far = new URL(near.url);
      far.port = `${link.port}`;
      tables.push(await compare(context, far.href, 'fsync on, the server a millisecond away', 1, count / 4));
    }
    if (context.size !== 'smoke') {
      const fast = await context.postgres({ fsync: 'off' });
      await prepare(fast.url);
      tables.push(await compare(context, fast.url, 'fsync off, one at a time', 1, count));
    }
    return {
      tables,
      targets: tables.map((table) =>
        target(
          `${table.title}: latency, of the same transaction without it`,
          'at most',
          1.3,
          rowOf(table, 'Leasehold fence.write')?.ratio?.median,
          '×',
        ),
      ),
    };
  },
};

async function prepare(url: string): Promise<void> {
  const admin = new pg.Pool({ connectionString: url, max: 1 });
  await installSchema(admin);
  await admin.query('create table accounts (id integer primary key, balance integer not null) with (fillfactor = 50)');
  await admin.query('insert into accounts select id, 0 from generate_series(0, 9) id');
  await admin.end();
}

async function compare(context: Context, url: string, title: string, width: number, count: number): Promise<Table> {
  const setups: (Contestant & { setup: PostgresSetup })[] = ways.map(({ name, kind, variant }) => ({
    name,
    kind,
    setup: { url, variant },
  }));
  const slice = async ({ hosted }: HostedContestant): Promise<Figures> => {
    await hosted.call('activate');
    const took = sorted(await hosted.call<number[]>('slice', { count, width }));
    return { p50: percentile(took, 0.5), p90: percentile(took, 0.9) };
  };
  const rounds = context.pick({ full: 15, quick: 4, smoke: 1 });
  const hosted = await hostAll(context, 'postgres-fence', setups);
  const series = await interleave(hosted, { rounds, warmUps: context.pick({ full: 5, quick: 3, smoke: 0 }) }, slice);
  for (const { hosted: its } of hosted) await its.close();
  return tableOf(series, { title, unit: 'µs', better: 'less', figure: 'p50', more: { 'p90 µs': 'p90' } });
}
