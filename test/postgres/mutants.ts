import type { Fence } from '@leasehold/core';
import { postgresFence, type PostgresFence } from '@leasehold/core/postgres';
import type pg from 'pg';

import { grantFor, isBlocked } from './support.ts';

/** A schema with one error. */
export interface SqlMutant {
  readonly does: string;
  /** What is replaced, each of them wherever it occurs. */
  readonly replaced: readonly (readonly [what: string | RegExp, by: string])[];
  /** The case of the suite, or the check below, that must find it. */
  readonly foundBy: string;
}

export interface Bench {
  readonly pool: pg.Pool;
  readonly schema: string;
  readonly fence: PostgresFence<pg.PoolClient>;
}

const must = (holds: boolean, what: string): void => {
  if (!holds) throw new Error(`does not hold: ${what}`);
};

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code,
  );

async function inTransaction({ pool }: Bench, ...statements: readonly string[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    for (const statement of statements) await client.query(statement);
    await client.query('commit');
  } finally {
    await client.query('rollback');
    client.release();
  }
}

/** A newer grant waits for the open transactions of the one before. */
export async function waits(pool: pg.Pool, fence: Fence<pg.PoolClient>): Promise<void> {
  const [grant, later] = [grantFor('test/waits'), grantFor('test/waits')];
  await fence.activate(grant);
  let isIn = false;
  let activation: Promise<void> | undefined;
  await fence.write(grant, async () => {
    activation = fence.activate(later).then(() => void (isIn = true));
    await isBlocked(pool, 1, () => isIn);
    must(!isIn, 'let in while the transaction of the one before is open');
  });
  await activation;
}

/** Beyond the suite: what a schema must do, each in a few lines. */
export const checks: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  'a newer grant waits': ({ pool, fence }) => waits(pool, fence),

  async 'siblings side by side'({ pool, fence }) {
    const grant = grantFor();
    await fence.activate(grant);
    let isIn = false;
    let sibling: Promise<void> | undefined;
    await fence
      .write(grant, async () => {
        sibling = fence.write(grant, () => void (isIn = true));
        await Promise.race([sibling, isBlocked(pool, 1, () => isIn)]);
        must(isIn, 'let in beside its sibling');
      })
      .finally(() => sibling);
  },

  async 'the forgotten stay out'({ pool, schema, fence }) {
    const [before, old] = [grantFor('test/old'), grantFor('test/old')];
    await fence.activate(old);
    await pool.query(`update ${schema}.fence set changed_at = now() - interval '2 days'`);
    await pool.query(`select ${schema}.prune('1 day')`);
    must((await codeOf(fence.activate(before))) === 'STALE_TOKEN', 'an old grant of a forgotten resource is refused');
    await fence.seal('test/other', before.fencingToken);
    const later = { ...old, resource: 'test/other' };
    must((await codeOf(fence.activate(later))) === 'STALE_TOKEN', 'a seal below the horizon opens nothing');
  },

  async 'no prune slips in between'({ pool, schema, fence }) {
    // An admission that stops where it has looked at nothing but what comes first, and a prune in the meantime.
    const [before, old] = [grantFor('test/between'), grantFor('test/between')];
    await fence.activate(old);
    await pool.query(`update ${schema}.fence set changed_at = now() - interval '2 days'`);
    const pruner = await pool.connect();
    await pruner.query('begin');
    await pruner.query(`lock table ${schema}.fence in access exclusive mode`);
    const admitted = codeOf(fence.activate(before));
    await isBlocked(pool, 1);
    await pruner.query(`select ${schema}.prune('1 day')`);
    await pruner.query('commit');
    pruner.release();
    must((await admitted) === 'STALE_TOKEN', 'an old grant is refused whatever it has read before the prune');
  },

  async 'nothing is missing from a snapshot'({ pool, schema, fence }) {
    const strict = postgresFence(pool, { schema, isolation: 'repeatable read' });
    const [first, later] = [grantFor('test/snapshot'), grantFor('test/snapshot')];
    const count = async (tx: pg.ClientBase): Promise<number> => {
      const { rows } = await tx.query<{ n: number }>(`select count(*)::int as n from log where resource = $1`, [
        schema,
      ]);
      return rows[0]!.n;
    };
    let seen: Promise<number> | undefined;
    await fence.activate(first);
    await fence.write(first, async (tx) => {
      seen = strict.write(later, count);
      await isBlocked(pool, 1);
      await tx.query('insert into log (resource, entry) values ($1, $2)', [schema, 'before']);
    });
    must((await seen) === 1, 'the successor sees what its predecessor has written');
  },

  async 'a transaction has its limits'({ pool, schema, fence }) {
    const [unknown, admitted, stale] = [grantFor(), grantFor(), grantFor('test/limits')];
    await fence.activate(admitted);
    await fence.activate(grantFor('test/limits'));
    // Servers have no limit, or one that is too long.
    for (const before of ['0', '1h']) {
      for (const sql of [fence.guardSql(unknown), fence.guardSql(admitted), fence.admitSql(stale)]) {
        const client = await pool.connect();
        await client.query('begin');
        await client.query(`set local lock_timeout = '1h'`);
        await client.query(`set local idle_in_transaction_session_timeout = '${before}'`);
        await client.query(`set local tcp_user_timeout = '${before}'`);
        await client.query(sql);
        const { rows } = await client.query(`select current_setting('idle_in_transaction_session_timeout') as idle,
          current_setting('lock_timeout') as lock, current_setting('tcp_user_timeout') as unread, version() as version`);
        await client.query('rollback');
        client.release();
        must(rows[0].idle === '5s', `${schema}: an owner may not stand still for ever`);
        must(
          !rows[0].version.includes('linux') || rows[0].unread === '5000',
          `${schema}: nor leave unread what it is sent`,
        );
        must(rows[0].lock === '1h', `${schema}: the limit of waiting is for the guard alone`);
      }
    }
  },

  async 'protected tables'(bench) {
    const { pool, schema, fence } = bench;
    const table = `${schema}_accounts`;
    await pool.query(`create table ${table} (owner text);
      create function ${table}_to_b() returns trigger language plpgsql as $$ begin new.owner := replace(new.owner, 'x', 'b'); return new; end $$;
      create trigger zz before insert on ${table} for each row execute function ${table}_to_b();
      select ${schema}.protect('${table}', $$'shop/' || NEW.owner$$)`);
    const [guardA, guardB] = [fence.guardSql(grantFor('shop/a')), fence.guardSql(grantFor('shop/b'))];
    const code = (...statements: readonly string[]): Promise<unknown> => codeOf(inTransaction(bench, ...statements));
    const insert = `insert into ${table} values ('a')`;
    must((await code(insert)) === 'LH002', 'no row without a guard');
    must((await code(guardB, insert)) === 'LH002', 'no row of another resource');
    must((await code(guardA, insert)) === 'done', 'a row under its guard');
    const guardX = fence.guardSql(grantFor('shop/x'));
    must((await code(guardX, `insert into ${table} values ('x')`)) === 'LH002', 'what is stored counts');
    must((await code(guardB, `update ${table} set owner = 'b'`)) === 'LH002', 'the row that it was counts');
    must((await code(guardA, `update ${table} set owner = 'b'`)) === 'LH002', 'the row that it becomes counts');
    must((await code(guardA, `insert into ${table} values (null)`)) === 'LH002', 'a row of nobody');
    const leftover = `select set_config('${schema}.guarded', '1 ${Buffer.from('shop/a').toString('hex')} ', false)`;
    must((await code(leftover, insert)) === 'LH002', 'a mark of another transaction');
    must((await code(leftover, guardB, insert)) === 'LH002', 'a mark of another transaction beside its own');
    must((await code(leftover, guardA, insert)) === 'done', 'its own mark beside one of another transaction');
    must((await code(guardA, guardB, guardB, insert)) === 'done', 'a second guard takes nothing from the first');
    // By hand: the fence itself takes no name with a line break.
    const guardBoth = `select ${schema}.guard(E'shop/x\\nshop/a', ${grantFor().fencingToken}, 'x')`;
    must((await code(guardBoth, insert)) === 'LH002', 'a name is not two');
    must((await code(`truncate ${table}`)) === 'LH002', 'no truncate');
  },

  async 'no mark without a lock'({ pool, schema, fence }) {
    const table = `${schema}_unmarked`;
    await pool.query(
      `create table ${table} (owner text); select ${schema}.protect('${table}', $$'shop/' || NEW.owner$$)`,
    );
    const [grant, later] = [grantFor('shop/a'), grantFor('shop/a')];
    await fence.activate(grant);
    const [successor, stale] = [await pool.connect(), await pool.connect()];
    await successor.query('begin');
    await successor.query(fence.activateSql(later));
    // Sees the row as it was, does not get it, and waits.
    await stale.query('begin');
    const answer = stale
      .query({ text: fence.admitSql(grant), rowMode: 'array' })
      .then(async ({ rows }) => [rows[0]?.[0], await codeOf(stale.query(`insert into ${table} values ('a')`))])
      .finally(() => stale.release(true));
    await isBlocked(pool, 1);
    await successor.query('commit');
    successor.release();
    const [isAdmitted, code] = await answer;
    must(isAdmitted === false, 'a stale grant is not admitted');
    must(code === 'LH002', 'who was not admitted does not write to a protected table');
  },

  async 'no outcome is guessed'({ pool, schema }) {
    const client = await pool.connect();
    const name = `select pg_current_xact_id()::text as xid, ${schema}.place() as place, ${schema}.system() as system`;
    const committed = (await client.query(name)).rows[0] as Record<string, string>;
    await client.query('begin');
    const aborted = (await client.query(name)).rows[0] as Record<string, string>;
    await client.query('rollback');
    client.release();
    const outcome = async (...args: readonly unknown[]): Promise<unknown> =>
      (await pool.query(`select ${schema}.outcome($1, $2, $3) as it`, [...args])).rows[0].it;
    const [timeline, life, ...rest] = committed['place']!.split(' ');
    const elsewhere = [`0${timeline}`, life, ...rest].join(' ');
    const later = [timeline, `${life}0`, ...rest].join(' ');
    const { xid, system } = aborted;
    must((await outcome(xid, elsewhere, system)) === 'unknown', 'not on another timeline');
    must((await outcome(xid, [timeline, `${life}0`].join(' '), `${system}0`)) === 'unknown', 'not on another system');
    must((await outcome(committed['xid'], later, system)) === 'unknown', 'no commit is proved in another life');
  },
};

const LOCK = /\n *for share(?: skip locked)?;/g;
const SAME_LEASE = /\s+and f\.lease_id (?:=|operator\(pg_catalog\.=\)) \w+\.lease_id/;

export const sqlMutants: readonly SqlMutant[] = [
  {
    does: 'looks at the row without locking it',
    replaced: [[LOCK, ';']],
    foundBy: 'a newer grant waits',
  },
  {
    does: 'compares the number alone',
    replaced: [
      [SAME_LEASE, ''],
      [' or (seen_token = token and seen_lease is distinct from lease_id)', ''],
    ],
    foundBy: 'the same token of another lease is refused: the number alone proves nothing',
  },
  {
    does: 'locks its row against its own siblings',
    replaced: [['for share skip locked', 'for update']],
    foundBy: 'siblings side by side',
  },
  {
    does: 'takes any number for a token',
    replaced: [['+ 86400000000', '+ 8640000000000000']],
    foundBy: 'a token more than a day ahead is out of range, and shuts out nobody',
  },
  {
    does: 'leaves the grant in a row that it seals',
    replaced: [['set token = seal.token, lease_id = null', 'set token = seal.token']],
    foundBy: 'a seal shuts out every grant up to it, and admits nobody',
  },
  {
    does: 'lowers a row by a seal',
    replaced: [[' and f.token <= seal.token', '']],
    foundBy: 'a seal below the highest changes nothing',
  },
  {
    does: 'admits a new grant under an old snapshot',
    replaced: [[`current_setting('transaction_isolation') not in`, `'read committed' not in`]],
    foundBy: 'nothing is missing from a snapshot',
  },
  {
    does: 'forgets without a horizon',
    replaced: [[/update (\S+)\.horizon set token = greatest.*;/, '']],
    foundBy: 'the forgotten stay out',
  },
  {
    does: 'seals below the horizon',
    replaced: [['if token < seen_token then', 'if false then']],
    foundBy: 'the forgotten stay out',
  },
  {
    does: 'looks at the horizon first',
    replaced: [
      ['  seen_lease text;\n', '  seen_lease text;\n  horizon bigint;\n'],
      [
        /loop\n {4}select f\.token, f\.lease_id into seen_token/,
        'loop\n    select h.token into strict horizon from SCHEMA.horizon h;\n    select f.token, f.lease_id into seen_token',
      ],
      ['is_admitted := token > seen_token;', 'is_admitted := token > horizon;'],
    ],
    foundBy: 'no prune slips in between',
  },
  {
    does: 'lets a transaction stand still for ever',
    replaced: [
      [`then pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms::pg_catalog.text, true)`, `then ''`],
    ],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'lets a transaction stand still for as long as its session allows',
    replaced: [[`done := set_config('idle_in_transaction_session_timeout', idle_ms::text, true);`, 'null;']],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'lets a transaction leave unread what it is sent',
    replaced: [[`pg_catalog.set_config('tcp_user_timeout', idle_ms::pg_catalog.text, true)`, `''`]],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'lets a transaction leave unread what it is sent for as long as its session allows',
    replaced: [[`done := set_config('tcp_user_timeout', idle_ms::text, true);`, 'null;']],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'sets no limits for who is refused without an error',
    replaced: [
      [
        /if not found then\n {4}perform \S+\.limits\(resource, token, lease_id, idle_ms, lock_ms\);/,
        'if not found then',
      ],
    ],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'marks its transaction before it has the lock',
    replaced: [
      [
        'begin\n  -- The usual case',
        `begin\n  perform pg_catalog.set_config('SCHEMA.guarded', SCHEMA.marks(resource), true);\n  -- The usual case`,
      ],
    ],
    foundBy: 'no mark without a lock',
  },
  {
    does: 'forgets its marks at the next guard',
    replaced: [
      [/coalesce\(pg_catalog\.current_setting\('\S+\.guarded', true\), ''\) operator\(pg_catalog\.=\) ''/, 'true'],
    ],
    foundBy: 'protected tables',
  },
  {
    does: 'goes on with the marks of another transaction',
    replaced: [['when not starts_with(marks, mine) then mine || mark', `when marks = '' then mine || mark`]],
    foundBy: 'protected tables',
  },
  {
    does: 'leaves its own limit of waiting behind',
    replaced: [[`perform set_config('lock_timeout', lock_before, true);`, '']],
    foundBy: 'a transaction has its limits',
  },
  {
    does: 'looks at rows before other triggers have changed them',
    replaced: [
      ['leasehold_protect after insert', 'leasehold_protect before insert'],
      ['  return null;\nend $body$', '  return new;\nend $body$'],
    ],
    foundBy: 'protected tables',
  },
  {
    does: 'does not look at the row that was there before',
    replaced: [[`continue when tg_op = 'INSERT';`, 'exit;']],
    foundBy: 'protected tables',
  },
  {
    does: 'takes the marks of any transaction',
    replaced: [[`leasehold_xid || ' ')`, `'')`]],
    foundBy: 'protected tables',
  },
  {
    does: 'keeps names as they are',
    replaced: [
      [`encode(convert_to(resource, 'UTF8'), 'hex') || ' '`, `replace(resource, E'\\n', ' ') || ' '`],
      [
        `pg_catalog.encode(pg_catalog.convert_to(resource, 'UTF8'), 'hex')`,
        `pg_catalog.replace(resource, E'\\n', ' ')`,
      ],
      [`pg_catalog.encode(pg_catalog.convert_to(leasehold_name, 'UTF8'), 'hex')`, 'leasehold_name'],
    ],
    foundBy: 'protected tables',
  },
  {
    does: 'forgets TRUNCATE',
    replaced: [
      ['before truncate on %s', 'after truncate on %s'],
      [
        /if current_setting\('\S+\.bypassed', true\) = pg_current_xact_id\(\)::text then return null; end if;/,
        'return null;',
      ],
    ],
    foundBy: 'protected tables',
  },
  {
    does: 'takes an xid for a name on any server',
    replaced: [['if not is_same and (', 'if false and (']],
    foundBy: 'no outcome is guessed',
  },
  {
    does: 'takes an xid for a name across a recovery',
    replaced: [[`status = 'committed' and not is_same`, 'false']],
    foundBy: 'no outcome is guessed',
  },
];
