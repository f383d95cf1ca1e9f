import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

import { uniqueName } from './redis-client.ts';

export interface Database extends AsyncDisposable {
  readonly url: string;
}

/** A database of the test's own on the shared server, dropped at the end with everybody who is still connected. */
export async function createDatabase(serverUrl: string): Promise<Database> {
  const name = uniqueName('db').replaceAll('-', '_');
  await on(serverUrl, (client) => client.query(`create database ${name}`));
  const url = new URL(serverUrl);
  url.pathname = name;
  return {
    url: url.href,
    [Symbol.asyncDispose]: () =>
      on(serverUrl, async (client) => {
        // `pool.end()` resolves before its sessions have ended, and one that is ended by force is an error that nobody hears.
        for (let tries = 0; tries < 50; tries++) {
          const { rowCount } = await client.query('select 1 from pg_stat_activity where datname = $1', [name]);
          if (rowCount === 0) break;
          await sleep(10);
        }
        await client.query(`drop database ${name} with (force)`);
      }),
  };
}

async function on(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
