// A one-row update in a transaction through the fence, against the floor: begin, update, commit over the same connections,
// three round trips. A few µs weigh most where the server is near and commits without waiting for its disk.
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import pg from 'pg';

import { find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { TcpProxy } from '../support/proxy.ts';
import { percentile } from './interleave.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? '60');
const COUNT = Number(process.env['COUNT'] ?? '100');

const UPDATE = 'update accounts set balance = balance + 1 where id = $1';

type Once = (worker: number) => Promise<unknown>;

/** The latencies of `count` times `once`, sorted; µs. */
async function round(once: Once, width: number, count: number): Promise<number[]> {
  const took: number[] = [];
  let left = count;
  const work = async (worker: number): Promise<void> => {
    while (left-- > 0) {
      const from = performance.now();
      await once(worker);
      took.push((performance.now() - from) * 1000);
    }
  };
  await Promise.all(Array.from({ length: width }, (_, worker) => work(worker)));
  return took.sort((a, b) => a - b);
}

const median = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  );

async function compare(
  title: string,
  variants: ReadonlyMap<string, Once>,
  width: number,
  count: number,
): Promise<void> {
  const all = new Map([...variants.keys()].map((name) => [name, { p50: [] as number[], p90: [] as number[] }]));
  for (const once of variants.values()) await round(once, width, count);
  for (let each = 0; each < ROUNDS; each++) {
    for (const [name, once] of variants) {
      const took = await round(once, width, count);
      all.get(name)?.p50.push(percentile(took, 0.5));
      all.get(name)?.p90.push(percentile(took, 0.9));
    }
  }
  const floor = all.values().next().value;
  console.log(`\n${title}, ${width} in flight (${ROUNDS} rounds of ${count})`);
  console.log(`${'variant'.padEnd(26)}   p50 µs   p90 µs   p50 ÷ floor   p10–p90   p90 ÷ floor`);
  for (const [name, { p50, p90 }] of all) {
    const ratios = p50.map((own, index) => own / (floor?.p50[index] ?? NaN)).sort((a, b) => a - b);
    const tails = p90.map((own, index) => own / (floor?.p90[index] ?? NaN));
    const cells = [
      String(Math.round(median(p50))).padStart(6),
      String(Math.round(median(p90))).padStart(6),
      percentile(ratios, 0.5).toFixed(2).padStart(11),
      `${percentile(ratios, 0.1).toFixed(2)}–${percentile(ratios, 0.9).toFixed(2)}`.padStart(7),
      median(tails).toFixed(2).padStart(11),
    ];
    console.log(`${name.padEnd(26)}   ${cells.join('   ')}`);
  }
}

async function bench(url: string, title: string, count: number): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  const ledger = postgresFence(pool);
  const grant = { resource: 'bench/a', fencingToken: Date.now() * 1000, leaseId: 'bench' };
  await ledger.activate(grant);
  const update = (client: pg.PoolClient, worker: number) => client.query(UPDATE, [worker]);

  async function transaction(worker: number, ...first: string[]): Promise<void> {
    const client = await pool.connect();
    await client.query('begin');
    for (const sql of first) await client.query(sql);
    await update(client, worker);
    await client.query('commit');
    client.release();
  }
  const variants = new Map<string, Once>([
    ['floor: begin update commit', (worker) => transaction(worker)],
    ['fence.write', (worker) => ledger.write(grant, (tx) => tx.query(UPDATE, [worker]))],
    ['own transaction, guardSql', (worker) => transaction(worker, ledger.guardSql(grant))],
    ['own transaction, select 1', (worker) => transaction(worker, 'select 1')],
  ]);
  for (const width of [1, 10]) await compare(title, variants, width, count);
  await pool.end();
}

const { path: bin } = find('postgres', thisMachine);
if (bin === null) throw new Error('no PostgreSQL');
for (const fsync of ['on', 'off']) {
  const server = await startPostgres({ bin, args: ['-c', `fsync=${fsync}`] });
  const admin = new pg.Pool({ connectionString: server.url, max: 1 });
  await installSchema(admin);
  await admin.query('create table accounts (id integer primary key, balance integer not null) with (fillfactor = 50)');
  await admin.query('insert into accounts select id, 0 from generate_series(0, 9) id');
  await bench(server.url, `server on this machine, fsync ${fsync}`, COUNT);
  if (fsync === 'on') {
    await using link = await TcpProxy.start({ port: server.port });
    link.delay({ up: 1 });
    const far = new URL(server.url);
    far.port = `${link.port}`;
    await bench(far.href, `server a millisecond away, fsync ${fsync}`, COUNT / 5);
  }
  await admin.end();
  await server.stop();
}
