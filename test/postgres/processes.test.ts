import { LeaseManager } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import type { How, Isolation, Setup, Wrote } from './fixtures/owner-messages.ts';
import { watchedFence } from './fixtures/watched-fence.ts';

const TTL_MS = 400;
const IDLE_MS = 1000;
/** For several processes on a busy machine. Less than the second after which an activation gives up. */
const SLACK_MS = 900;

const owner = new URL('./fixtures/owner.ts', import.meta.url);

let database: Database;
let admin: pg.Pool;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  admin = new pg.Pool({ connectionString: database.url });
  await installSchema(admin);
  await admin.query('create table accounts (name text primary key, balance integer not null)');
});

afterAll(async () => {
  await admin.end();
  await database[Symbol.asyncDispose]();
});

/** An account, its owner in a process of its own, and a successor here. */
class Scene implements AsyncDisposable {
  readonly child: Child;
  readonly #setup: Setup;
  readonly #leases: LeaseManager;
  readonly #ledger;

  private constructor(setup: Setup) {
    this.#setup = setup;
    this.child = startChild(owner, { env: { OWNER: JSON.stringify(setup) }, scope: 'file' });
    this.#leases = new LeaseManager({
      store: redisStore(setup.redisUrl, { prefix: setup.prefix }),
      ttl: '10s',
    });
    this.#ledger = postgresFence(admin, { name: 'ledger', idleTimeout: setup.idleMs, isolation: setup.isolation });
  }

  static async open(isolation: Isolation): Promise<Scene> {
    const prefix = uniqueName();
    await admin.query('insert into accounts values ($1, 0)', [prefix]);
    const urls = { redisUrl: inject('redisUrl'), postgresUrl: database.url };
    return new Scene({ ...urls, prefix, ttlMs: TTL_MS, idleMs: IDLE_MS, isolation });
  }

  async balance(): Promise<number> {
    const { rows } = await admin.query('select balance from accounts where name = $1', [this.#setup.prefix]);
    return (rows[0] as { balance: number }).balance;
  }

  /** The owner begins a write of 1 and has passed the guard. */
  async begin(how: How): Promise<void> {
    this.child.send('acquire');
    await this.child.next('held');
    this.child.send('write', { how, amount: 1 });
    await this.child.next('guarded');
  }

  goOn(): void {
    this.child.send('go on');
  }

  async wrote(): Promise<Wrote> {
    return this.child.next<Wrote & { type: string }>('wrote');
  }

  /** The successor takes over, writes 100 and is done. How long its activation was held up. */
  async succeed(): Promise<number> {
    const ledger = watchedFence(this.#ledger);
    await this.#leases.run('a', { wait: '15s', fences: [ledger] }, ({ grant }) =>
      ledger.write(grant, (tx) =>
        tx.query('update accounts set balance = balance + 100 where name = $1', [this.#setup.prefix]),
      ),
    );
    expect(ledger.activations).toMatchObject([{ code: null }]);
    return ledger.activations[0]?.ms ?? NaN;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child.kill9();
    await this.#leases.close();
  }
}

const isolations = ['read committed', 'repeatable read', 'serializable'] as const;
const ways = [
  ...isolations.map((isolation) => ({ how: 'pg', isolation }) as const),
  ...isolations.map((isolation) => ({ how: 'own', isolation }) as const),
  { how: 'postgres', isolation: 'read committed' } as const,
];

test.concurrent.for(ways)(
  'an owner that is stopped or killed inside its transaction: $how, $isolation',
  async ({ how, isolation }) => {
    await using scene = await Scene.open(isolation);
    const { child } = scene;

    // Stopped between guard and write.
    await scene.begin(how);
    await child.stop();
    expect(await scene.succeed()).toBeLessThan(IDLE_MS + SLACK_MS);
    child.cont();
    // Its connection is used by others again before it goes on.
    child.send('something else');
    await child.next('something else');
    scene.goOn();
    const late = await scene.wrote();
    if (how === 'own') expect(late.message).toMatch(/connection|terminat/i);
    else expect(late).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(await scene.balance()).toBe(100);

    // The process lives on. Stopped after the write, before COMMIT.
    await scene.begin(how);
    scene.goOn();
    await child.next('written');
    await child.stop();
    expect(await scene.succeed()).toBeLessThan(IDLE_MS + SLACK_MS);
    child.cont();
    child.send('something else');
    await child.next('something else');
    scene.goOn();
    expect((await scene.wrote()).message).toBeDefined();
    expect(await scene.balance()).toBe(200);

    // It writes again.
    await scene.begin(how);
    scene.goOn();
    scene.goOn();
    expect(await scene.wrote()).toMatchObject({ code: null });
    expect(await scene.balance()).toBe(201);

    // Killed between guard and COMMIT: nobody is held up.
    await scene.begin(how);
    scene.goOn();
    await child.next('written');
    await child.kill9();
    expect(await scene.succeed()).toBeLessThan(SLACK_MS);
    expect(await scene.balance()).toBe(301);
  },
);

test.concurrent('a process with nothing else to do does not end before a write has settled', async () => {
  await using child = startChild(new URL('./fixtures/ended-pool.ts', import.meta.url), {
    env: { POSTGRES_URL: database.url },
  });
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(child.output).toMatch(/FENCE_UNAVAILABLE.*no answer to the request for a connection.*nothing was written/);
});

test('an owner that is stopped while the server sends it a large result holds up nobody for longer either', async () => {
  await using scene = await Scene.open('read committed');
  await scene.begin('reading');
  scene.goOn();
  const stuck = `select from pg_stat_activity where datname = current_database() and wait_event = 'ClientWrite'`;
  await expect.poll(async () => (await admin.query(stuck)).rowCount, { timeout: 10_000 }).toBe(1);
  if (process.platform !== 'linux') {
    // Such a server cannot tell: the successor says what it waits for.
    await expect(scene.succeed()).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    return;
  }
  expect(await scene.succeed()).toBeLessThan(IDLE_MS + SLACK_MS);
  scene.child.cont();
  expect(await scene.wrote()).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
  expect(await scene.balance()).toBe(100);
});

test('a transaction without the limit holds up every successor, until each gives up: that is what the limit is for', async () => {
  const grant = { resource: `shop/${uniqueName()}`, fencingToken: 1, leaseId: 'first' };
  const successor = { ...grant, fencingToken: 2, leaseId: 'second' };
  const ledger = postgresFence(admin, { idleTimeout: 200, lockTimeout: 400 });
  await ledger.activate(grant);
  const client = await admin.connect();
  try {
    // The lock of a guard, and nothing else of it.
    await client.query('begin');
    await client.query('select from leasehold.fence where resource = $1 for share', [grant.resource]);
    await expect(ledger.activate(successor)).rejects.toMatchObject({
      code: 'FENCE_UNAVAILABLE',
      outcome: 'not-written',
    });
    await client.query('commit');
  } finally {
    client.release();
  }
  await ledger.activate(successor);
});
