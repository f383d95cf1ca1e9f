import { installSchema, postgresFence } from '@leasehold/core/postgres';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import { clients } from './clients.ts';

const standsStill = new URL('./fixtures/stands-still.ts', import.meta.url);

let database: Database;
let admin: pg.Pool;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  admin = new pg.Pool({ connectionString: database.url, max: 2 });
  await installSchema(admin);
  await admin.query('create table accounts (id integer primary key, balance integer not null)');
  await admin.query('insert into accounts values (42, 100)');
});

afterAll(async () => {
  await admin.end();
  await database[Symbol.asyncDispose]();
});

test.each(Object.keys(clients))('%s', async (library) => {
  const grant = { resource: `shop/${uniqueName()}`, fencingToken: 1, leaseId: 'first' };
  await using child = startChild(standsStill, {
    env: { POSTGRES_URL: database.url, LIBRARY: library, GRANT: JSON.stringify(grant) },
  });
  await child.next('open');
  const from = performance.now();
  await postgresFence(admin, { idleTimeout: 300 }).activate({ ...grant, fencingToken: 2, leaseId: 'second' });
  console.log(library, 'activation waited', Math.round(performance.now() - from));
  await new Promise((r) => setTimeout(r, 100));
  child.send('go on');
  try { console.log(library, await child.next('ended')); console.log(await child.next('another transaction')); } catch (e) { console.log(library, String(e).slice(0, 1500)); }
  console.log(library, await child.exit, child.output.slice(0,300));
  const { rows } = await admin.query('select balance from accounts');
  console.log(rows);
});
