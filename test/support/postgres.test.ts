import pg from 'pg';
import { expect, inject, test } from 'vitest';

import { createDatabase } from './postgres.ts';

test('a database of its own, gone at the end', async () => {
  const databases = async () => {
    const client = new pg.Client(inject('postgresUrl'));
    await client.connect();
    const { rows } = await client.query<{ datname: string }>('select datname from pg_database');
    await client.end();
    return rows.map(({ datname }) => datname);
  };
  let name: string;
  {
    await using database = await createDatabase(inject('postgresUrl'));
    name = new URL(database.url).pathname.slice(1);
    expect(await databases()).toContain(name);
  }
  expect(await databases()).not.toContain(name);
});
