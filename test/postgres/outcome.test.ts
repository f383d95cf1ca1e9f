import type { FenceUnavailableError, Grant } from '@leasehold/core';
import { installSchema, postgresFence, type PostgresFence, type PostgresFenceOptions } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { find } from '../../scripts/services/binaries.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import type { TcpProxy } from '../support/proxy.ts';
import {
  canTellOutcomes,
  COMMIT,
  connectPool,
  connectPostgresJs,
  createSite,
  grantFor,
  proxyTo,
  type Site,
} from './support.ts';

let site: Site;
let pool: pg.Pool;
let grant: Grant;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

beforeEach(async () => {
  grant = grantFor();
  await postgresFence(pool).activate(grant);
});

async function entries(): Promise<readonly string[]> {
  const { rows } = await pool.query<{ entry: string }>('select entry from log where resource = $1 order by at', [
    grant.resource,
  ]);
  return rows.map(({ entry }) => entry);
}

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error: unknown) => error,
  );

type Send = (sql: string) => Promise<unknown>;

interface Scene extends AsyncDisposable {
  readonly proxy: TcpProxy;
  /** A write of one entry, with what else the body does. */
  write(more?: (send: Send) => Promise<unknown>): Promise<unknown>;
}

async function scene<Tx>(
  end: () => Promise<void>,
  proxy: TcpProxy,
  fence: PostgresFence<Tx>,
  send: (tx: Tx) => Send,
): Promise<Scene> {
  const insert = `insert into log (resource, entry) values ('${grant.resource}', 'entry')`;
  return {
    proxy,
    write: (more) =>
      fence.write(grant, async (tx) => {
        await send(tx)(insert);
        await more?.(send(tx));
        return 'value';
      }),
    async [Symbol.asyncDispose]() {
      await end();
      await proxy.close();
    },
  };
}

const scenes = {
  async pg(limits: PostgresFenceOptions): Promise<Scene> {
    const { proxy, url } = await proxyTo(site.url);
    const own = connectPool(url);
    return scene(
      () => own.end(),
      proxy,
      postgresFence(own, limits),
      (tx) => (sql) => tx.query(sql),
    );
  },
  async 'postgres.js'(limits: PostgresFenceOptions): Promise<Scene> {
    const { proxy, url } = await proxyTo(site.url);
    const sql = connectPostgresJs(url, { prepare: false, backoff: () => 0 });
    const end = (): Promise<void> => sql.end({ timeout: 0 });
    return scene(end, proxy, postgresFence(sql, limits), (tx) => (text) => tx.unsafe(text));
  },
};

const notWritten = { code: 'FENCE_UNAVAILABLE', outcome: 'not-written' };

describe.each(Object.keys(scenes) as (keyof typeof scenes)[])('over %s', (kind) => {
  const open = (limits: PostgresFenceOptions = {}): Promise<Scene> => scenes[kind](limits);

  test('a COMMIT that was carried out, and whose answer was lost, counts', async () => {
    await using own = await open();
    void own.proxy.loseNextReply(COMMIT);
    const told = await own.write().catch((error: unknown) => (error as FenceUnavailableError).outcome);
    expect((await canTellOutcomes(pool)) ? ['value'] : ['value', 'unknown']).toContain(told);
    expect(await entries()).toEqual(['entry']);
  });

  test('the same in a session that has written before, and remembers where it is', async () => {
    await using own = await open();
    await own.write();
    await own.write();
    void own.proxy.loseNextReply(COMMIT);
    const told = await own.write().catch((error: unknown) => (error as FenceUnavailableError).outcome);
    expect((await canTellOutcomes(pool)) ? ['value'] : ['value', 'unknown']).toContain(told);
    expect(await entries()).toEqual(['entry', 'entry', 'entry']);
  });

  test('a COMMIT that never arrived does not, and it is certain', async () => {
    await using own = await open();
    void own.proxy.loseNextRequest(COMMIT);
    expect(await failure(own.write())).toMatchObject(notWritten);
    expect(await entries()).toEqual([]);
  });

  test('a COMMIT that is on its way for too long is cut off, and it is certain what became of it', async () => {
    await using own = await open({ timeout: 300 });
    void own.proxy.nextRequest(COMMIT).then(() => own.proxy.pass());
    const write = own.write(async () => own.proxy.swallow('up'));
    expect(await failure(write)).toMatchObject(notWritten);
    expect(await entries()).toEqual([]);
  });

  test('where the server cannot be asked, the outcome is unknown', async () => {
    await using own = await open({ idleTimeout: 1000, lockTimeout: 1100 });
    void own.proxy.loseNextReply(COMMIT);
    const write = own.write(async () => own.proxy.refuse());
    expect(await failure(write)).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    expect(await entries()).toEqual(['entry']);
  });

  test('a session that is ended by an administrator before COMMIT has written nothing', async () => {
    await using own = await open();
    const end = async (send: Send): Promise<void> => {
      const [row] = rowsOf(await send('select pg_backend_pid() as pid'));
      await pool.query('select pg_terminate_backend($1)', [row?.['pid']]);
    };
    expect(await failure(own.write(end))).toMatchObject(notWritten);
    expect(await entries()).toEqual([]);
  });

  test('a connection that is lost in the body: what the body itself throws comes out, else that nothing was written', async () => {
    await using own = await open();
    const business = new Error('no such customer');
    const write = own.write(async (send) => {
      own.proxy.cut();
      await failure(send('select 1'));
      throw business;
    });
    expect(await failure(write)).toBe(business);
    const other = own.write(async (send) => {
      own.proxy.cut();
      await send('select 1');
    });
    expect(await failure(other)).toMatchObject(notWritten);
    const unaware = own.write(async () => own.proxy.cut());
    expect(await failure(unaware)).toMatchObject(notWritten);
    expect(await entries()).toEqual([]);
    expect(await own.write()).toBe('value');
  });

  test('a guard without an answer has let nobody in', async () => {
    await using own = await open();
    void own.proxy.loseNextReply('leasehold.guard');
    expect(await failure(own.write())).toMatchObject(notWritten);
    void own.proxy.loseNextRequest('leasehold.guard');
    expect(await failure(own.write())).toMatchObject(notWritten);
    expect(await own.write()).toBe('value');
    expect(await entries()).toEqual(['entry']);
  });
});

function rowsOf(result: unknown): readonly Record<string, unknown>[] {
  return (Array.isArray(result) ? result : (result as { rows: unknown[] }).rows) as Record<string, unknown>[];
}

describe('what a transaction has come to', () => {
  const NAME = 'select pg_current_xact_id()::text as xid, leasehold.place() as place, leasehold.system() as system';

  interface Name {
    readonly xid: string;
    readonly place: string;
    readonly system: string;
  }

  async function outcome({ xid, place, system }: Partial<Name>, asked: pg.Pool = pool): Promise<unknown> {
    const { rows } = await asked.query('select leasehold.outcome($1, $2, $3) as status', [xid, place, system]);
    return rows[0].status;
  }

  async function transaction(end: 'commit' | 'rollback'): Promise<Name> {
    const client = await pool.connect();
    await client.query('begin');
    const { rows } = await client.query<Name>(NAME);
    expect(await outcome(rows[0]!)).toBe('in progress');
    await client.query(end);
    client.release();
    return rows[0]!;
  }

  test('is told by its number, in one life of the server', async () => {
    const [committed, aborted] = [await transaction('commit'), await transaction('rollback')];
    // Before PostgreSQL 15 a checkpoint may be that of a recovery.
    await pool.query('checkpoint');
    expect(await outcome(committed)).toBe((await canTellOutcomes(pool)) ? 'committed' : 'unknown');
    expect(await outcome(aborted)).toBe('aborted');
    // One that was never begun: a crash has forgotten it.
    expect(await outcome({ ...committed, xid: '4000000000' })).toBe('aborted');
  });

  test('a session remembers where it is, where that lasts as long as the session', async () => {
    await using own = connectPool(site.url, { max: 1 });
    const told = async (): Promise<unknown> => {
      const { rows } = await own.query(`select nullif(current_setting('leasehold.place', true), '') as it`);
      return rows[0].it;
    };
    expect(await told()).toBeNull();
    await postgresFence(own).write(grant, () => {});
    const { rows } = await own.query('select leasehold.place() as place');
    expect(await told()).toBe((await canTellOutcomes(pool)) ? rows[0].place : null);
    // What the session has from elsewhere is of another life, and proves nothing.
    await own.query(`select set_config('leasehold.place', '1 2|3', false)`);
    const guard = postgresFence(own).guardSql(grant).replace('.guard(', '.guard_write(');
    const answer = await own.query<{ it: string }>(`${guard} as it`);
    const [, xid, place] = /^(\d+) [^|]*\|(.*)$/.exec(answer.rows[0]!.it)!;
    expect(place).toBe('1 2|3');
    expect(await postgresFence(own).write(grant, () => 'written')).toBe('written');
    expect(await outcome({ xid: xid!, place: place!, system: '' })).toBe('unknown');
  });

  test('of an earlier life: that it was not committed is certain, that it was is not', async () => {
    const [committed, aborted] = [await transaction('commit'), await transaction('rollback')];
    const earlier = committed.place.replace(' ', ' 1');
    expect(await outcome({ ...committed, place: earlier })).toBe('unknown');
    expect(await outcome({ ...aborted, place: earlier })).toBe('aborted');
    // Where the system is not known, nothing is. Before PostgreSQL 15 it is a part of the place.
    const { xid } = aborted;
    expect(await outcome({ xid, place: earlier })).toBe((await canTellOutcomes(pool)) ? 'unknown' : 'aborted');
  });

  test('is not guessed on another system, after a failover, or where it is not told', async () => {
    const { xid, place, system } = await transaction('rollback');
    const [timeline, life, ...rest] = place.split(' ');
    const others = [
      { place: [`${timeline}0`, life, ...rest].join(' '), system },
      { place: `${timeline} 1${life} ${rest.length > 0 ? `${system}0` : ''}`, system: `${system}0` },
      { place: ` ${life}`, system },
      { place: '', system },
      { place: 'x', system: '' },
      { system },
      {},
    ];
    for (const other of others) expect([other, await outcome({ xid, ...other })]).toEqual([other, 'unknown']);
    expect(await outcome({ place, system })).toBe('unknown');
  });

  test('a crash frees the number of what was not on disk, and the next one to get it is not taken for it', async () => {
    const found = find('postgres', thisMachine);
    const server = await startPostgres({ bin: found.path!, args: ['-c', 'wal_writer_delay=10s'] });
    try {
      await using own = connectPool(server.url);
      await installSchema(own);
      await own.query('create table data (v int)');
      const fence = postgresFence(own, { timeout: '10s', idleTimeout: '10s' });
      await fence.activate(grant);
      let first: Name | undefined;
      const write = fence.write(grant, async (tx) => {
        await tx.query('insert into data values (1)');
        const { rows } = await tx.query<Name & { pid: number }>(`${NAME}, pg_backend_pid() as pid`);
        first = rows[0];
        process.kill(rows[0]!.pid, 'SIGKILL');
      });
      expect(await failure(write)).toMatchObject(notWritten);

      let second: Name | undefined;
      while (second?.xid !== first?.xid) {
        second = await own.query<Name>(`insert into data values (2) returning ${NAME.slice(7)}`).then(
          ({ rows }) => rows[0],
          () => undefined, // in recovery
        );
        if (second !== undefined && BigInt(second.xid) > BigInt(first!.xid))
          throw new Error('its number was not used again');
      }
      const { rows } = await own.query('select pg_xact_status($1::xid8) as status', [first!.xid]);
      expect(rows).toEqual([{ status: 'committed' }]);
      expect(await outcome(first!, own)).toBe('unknown');
      expect(await outcome(second!, own)).toBe('committed');
      const { rows: data } = await own.query('select v from data where v = 1');
      expect(data).toEqual([]);
    } finally {
      await server.stop();
    }
  });
});
