import { setTimeout as sleep } from 'node:timers/promises';
import { installSchema } from '@leasehold/core/postgres';
import type { FenceRow } from '@leasehold/core/testing/history';
import pg from 'pg';

import { insist } from './nemeses/admin.ts';
import { sharedMs, type Refused } from './pen.ts';

/** The name of the fence in the history. */
export const FENCE = 'postgres';

/** Each in the transaction that it tells of, and so exactly if that was committed. `n` is in the order of a resource's commits: its row is locked. */
const TABLES = `
create schema chaos;
create table chaos.data (resource text primary key, version bigint not null default 0);
create table chaos.ledger (
  n bigserial primary key,
  at timestamptz not null default clock_timestamp(),
  act text not null,
  resource text not null,
  token bigint not null,
  lease_id text,
  write_id text,
  before bigint,
  after bigint,
  job text
);
create function chaos.note() returns trigger language plpgsql as $$ begin
  insert into chaos.ledger (act, resource, token, lease_id)
    values (case when new.lease_id is null then 'seal' else 'activate' end, new.resource, new.token, new.lease_id);
  return null;
end $$;
create trigger note after insert or update of token, lease_id on leasehold.fence
  for each row execute function chaos.note();
`;

/** A guarded write: the data goes on by one, and the ledger has it. $1 resource, $2 token, $3 leaseId, $4 writeId, $5 job. */
export const WRITE = `
with moved as (update chaos.data set version = version + 1 where resource = $1 returning version)
insert into chaos.ledger (act, resource, token, lease_id, write_id, before, after, job)
select 'write', $1, $2, $3, $4, version - 1, version, $5 from moved`;

export const READ = 'select version from chaos.data where resource = $1';

interface Row {
  readonly n: string;
  readonly at: number;
  readonly act: FenceRow['act'];
  readonly resource: string;
  readonly token: string;
  readonly lease_id: string | null;
  readonly write_id: string | null;
  readonly before: string | null;
  readonly after: string | null;
}

/** The truth of what was done to the data: what the database itself has committed. */
export class Ledger implements AsyncDisposable {
  readonly #pool: pg.Pool;

  private constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 2, connectionTimeoutMillis: 5000, query_timeout: 20_000 });
    this.#pool.on('error', () => {}); // each question reports its own failure
  }

  /** In an empty database. */
  static async create(url: string, qualified: readonly string[]): Promise<Ledger> {
    const ledger = new Ledger(url);
    await installSchema(ledger.#pool);
    await ledger.#pool.query(TABLES);
    for (const resource of qualified)
      await ledger.#pool.query('insert into chaos.data (resource) values ($1)', [resource]);
    return ledger;
  }

  /** How many writes each resource has seen. */
  async versions(): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#read<{ resource: string; version: string }>('select resource, version from chaos.data');
    return new Map(rows.map(({ resource, version }) => [resource, Number(version)]));
  }

  /** The jobs that have written. */
  async jobs(): Promise<ReadonlySet<string>> {
    const rows = await this.#read<{ job: string }>('select distinct job from chaos.ledger where job is not null');
    return new Set(rows.map(({ job }) => job));
  }

  /** What was committed, in its order, and between it what was refused. */
  async rows(refused: readonly Refused[]): Promise<readonly FenceRow[]> {
    const rows = await this.#read<Row>(
      `select n, (extract(epoch from at) * 1000)::float8 as at, act, resource, token, lease_id, write_id, before, after
       from chaos.ledger order by n`,
    );
    const behindMs = await wallAheadMs();
    const accepted = rows.map((row): Refused & { accepted: boolean } => ({
      atMs: row.at - behindMs,
      fence: FENCE,
      resource: row.resource,
      act: row.act,
      leaseId: row.lease_id,
      fencingToken: Number(row.token),
      accepted: true,
      writeId: row.write_id ?? undefined,
      before: row.before === null ? undefined : Number(row.before),
      after: row.after === null ? undefined : Number(row.after),
    }));
    return woven(accepted, refused).map((row, order) => ({ order, ...row }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end();
  }

  /** A fault that is just over may have ended the session, and shows it at the next question. */
  async #read<R extends pg.QueryResultRow>(question: string): Promise<readonly R[]> {
    return (await insist(() => this.#pool.query<R>(question))).rows;
  }
}

type Draft = Omit<FenceRow, 'order'>;

/** A refusal was told after what it speaks of had been admitted, and after all that was committed before its answer came. */
function woven(accepted: readonly Draft[], refused: readonly Refused[]): readonly Draft[] {
  const after = new Map<number, Draft[]>();
  for (const row of [...refused].sort((a, b) => a.atMs - b.atMs)) {
    const { highest } = row;
    const same = (other: Draft): boolean => other.resource === row.resource;
    const byTime = accepted.findLastIndex((other) => same(other) && other.atMs <= row.atMs);
    const admitted = accepted.findIndex(
      (other) => same(other) && other.fencingToken === highest?.fencingToken && other.leaseId === highest.leaseId,
    );
    const at = Math.max(byTime, admitted);
    after.set(at, [...(after.get(at) ?? []), { ...row, accepted: false }]);
  }
  const drafts = [...(after.get(-1) ?? [])];
  for (const [index, row] of accepted.entries()) drafts.push(row, ...(after.get(index) ?? []));
  return drafts;
}

/** By how much the wall clock is ahead of the shared one, as exactly as a clock of whole milliseconds shows it. */
async function wallAheadMs(): Promise<number> {
  await sleep(0);
  const from = Date.now();
  let now = Date.now();
  while (now === from) now = Date.now();
  return now - sharedMs();
}
