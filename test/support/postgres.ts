import pg from 'pg';

import { uniqueName } from './redis-client.ts';

export interface Database extends AsyncDisposable {
  readonly url: string;
}

/** A database of the test's own on the shared server, dropped at the end with everybody who is still connected. */
export async function createDatabase(serverUrl: string): Promise<Database> {
  const name = uniqueName('db').replaceAll('-', '_');
  await ask(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = name;
  return {
    url: url.href,
    [Symbol.asyncDispose]: () => ask(serverUrl, `drop database ${name} with (force)`),
  };
}

async function ask(url: string, sql: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
