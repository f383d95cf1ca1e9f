import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RedisSource } from '@leasehold/core/redis';
import { createClient } from 'redis';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { freePort } from '../../scripts/services/ports.mjs';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { failing, storeOn } from './clients.ts';
import { acquireOf, call } from './requests.ts';

let dir: string;
let port: number;
let ca: string;
let server: RedisServer;

beforeAll(async () => {
  dir = guardedFolder('tls');
  port = await freePort();
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const altNames = [
    { type: 7, ip: '127.0.0.1' },
    { type: 2, value: 'localhost' },
  ] as const;
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    extensions: [{ name: 'subjectAltName', altNames: [...altNames] }],
  });
  writeFileSync(key, made.private);
  writeFileSync(cert, made.cert);
  ca = made.cert;
  server = await startRedis({
    scope: 'file',
    args: [
      ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert],
    ],
  });
});

afterAll(async () => {
  await server.stop();
  removeFolder(dir);
});

describe('over TLS', () => {
  const trusting: readonly (readonly [string, () => RedisSource])[] = [
    ['ioredis', () => ({ host: '127.0.0.1', port, tls: { ca } })],
    ['node-redis', () => createClient({ socket: { host: '127.0.0.1', port, tls: true, ca } })],
  ];
  test.each(trusting)('%s: commands and subscription', async (_, source) => {
    await using raw = await connectRedis(server.url);
    const prefix = uniqueName('tls');
    const store = storeOn(source(), { prefix });
    const told = new Promise<string>((resolve) => {
      void store.subscribe(`${prefix}:owner:us`, ({ leaseId }) => resolve(leaseId));
    });
    const holder = acquireOf('r', { channel: `${prefix}:owner:us` });
    expect(await store.acquire(holder, call)).toMatchObject({ kind: 'granted' });
    while (String(await raw.call('PUBSUB', 'NUMSUB', `${prefix}:owner:us`)).endsWith(',0'))
      await new Promise(setImmediate);
    await store.revoke({ ...holder, operator: 'ann', reason: 'enough' }, call);
    expect(await told).toBe(holder.leaseId);
  });

  const distrusting: readonly (readonly [string, () => RedisSource])[] = [
    ['ioredis', () => `rediss://127.0.0.1:${port}`],
    ['node-redis', () => createClient({ url: `rediss://127.0.0.1:${port}` })],
  ];
  test.each(distrusting)('%s: a certificate that nobody vouches for is refused', async (_, source) => {
    const { error } = await failing(storeOn(source(), { connectTimeout: 300 }).acquire(acquireOf('r'), call));
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
    expect((error.cause as Error).message).toContain('self-signed');
  });
});

test.each([
  ['the URL of ioredis', (): RedisSource => `${server.url}/3`],
  ['the options of ioredis', (): RedisSource => ({ port: server.port, db: 3 })],
  ['the URL of node-redis', (): RedisSource => createClient({ url: `${server.url}/3` })],
  ['the options of node-redis', (): RedisSource => createClient({ socket: { port: server.port }, database: 3 })],
])('a database other than 0, by %s', async (_, source) => {
  await using raw = await connectRedis(`${server.url}/3`);
  const prefix = uniqueName('db');
  const store = storeOn(source(), { prefix });
  expect(store.description).toMatch(/^redis (127\.0\.0\.1|localhost):\d+\/3$/);
  await store.acquire(acquireOf('r'), call);
  expect(await raw.exists(`${prefix}:{r}`)).toBe(1);
  const found: string[] = [];
  for await (const { resource } of store.list(call)) found.push(resource);
  expect(found).toEqual(['r']);
});
