import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager, type Fence, type Grant } from '@leasehold/core';
import { postgresFence } from '@leasehold/core/postgres';
import { redisFence, redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { connectPool, createSite, isBlocked, type Site } from '../postgres/support.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { callCli, type Result } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');
const NOBODY = 'redis://127.0.0.1:1';
const DAY_US = 24 * 60 * 60 * 1_000_000;

let site: Site;
let pool: pg.Pool;
let client: Redis & AsyncDisposable;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url);
  client = await connectRedis(redisUrl);
});

afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await pool.end();
  await site[Symbol.asyncDispose]();
});

/** A store, a config with a fence of each kind, and the command. */
interface Shop extends AsyncDisposable {
  readonly prefix: string;
  readonly manager: LeaseManager;
  readonly ledger: Fence;
  readonly stock: Fence;
  /** A write of this grant, at each of them. */
  readonly write: Readonly<Record<'ledger' | 'stock', (grant: Grant) => Promise<unknown>>>;
  readonly seal: (...args: readonly string[]) => Promise<Result>;
  /** Without `--yes`, and nobody is there. */
  readonly sealAlone: (...args: readonly string[]) => Promise<Result>;
  /** As `seal`, with somebody who types. */
  readonly sealTyping: (typed: string, ...args: readonly string[]) => Promise<Result>;
}

function shop(): Shop {
  const prefix = uniqueName();
  const dir = guardedFolder('seal');
  const file = join(dir, 'leasehold.yaml');
  writeFileSync(
    file,
    `version: 1
store: { redis: '${redisUrl}', prefix: ${prefix} }
fences:
  ledger: { postgres: '${site.url}' }
  stock: { redis: '${redisUrl}' }
  away: { postgres: 'postgres://app:s3cret@127.0.0.1:1/shop' }
jobs: { none: { every: 1h, handler: ./none.js } }
`,
  );
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), owner: 'web-7f9c' });
  const line = (args: readonly string[]): readonly string[] => ['seal', 'reports', ...args, '--reason', 'INC-4711'];
  const ledger = postgresFence(pool, { name: 'ledger' });
  const stock = redisFence(client, { name: 'stock' });
  return {
    prefix,
    manager,
    ledger,
    stock,
    write: {
      ledger: (grant) => ledger.write(grant, () => {}),
      stock: (grant) => stock.write(grant, (tx) => tx.call('SET', `${grant.resource}:data`, grant.leaseId)),
    },
    seal: (...args) => callCli([...line(args), '-c', file, '--yes']),
    sealAlone: (...args) => callCli([...line(args), '-c', file]),
    sealTyping: (typed, ...args) => callCli([...line(args), '-c', file], {}, `${typed}\n`),
    async [Symbol.asyncDispose]() {
      await manager.close({ grace: 0, abandonAfter: 0 });
      removeFolder(dir);
    },
  };
}

const json = ({ stdout }: Result): Record<string, unknown> => JSON.parse(stdout) as Record<string, unknown>;

describe('leasehold seal', () => {
  test.each(['ledger', 'stock'] as const)(
    'shuts out the owner and nobody who comes later, at a fence of the config (%s)',
    async (name) => {
      await using here = shop();
      const { [name]: fence, manager, prefix } = here;
      const lease = await manager.acquire('reports', { fences: [fence] });
      const { grant } = lease;
      const done = await here.seal('--fence', name);
      expect(done).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^sealed: every grant up to it is refused .*, \d{4}-\S+Z: INC-4711\)\n$/),
      });
      expect(done.stderr).toContain(
        `now      admitted ${grant.fencingToken} (lease ${grant.leaseId}) for ${prefix}/reports`,
      );
      expect(done.stderr).toMatch(/owner {4}web-7f9c.* has token \d+: its writes are refused from then on/);
      expect(await fence.highest(grant.resource)).toEqual({ fencingToken: grant.fencingToken + 1, leaseId: null });
      await expect(here.write[name](grant)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
      const noted = (await manager.history('reports')).find(({ event }) => event === 'sealed');
      expect(noted).toMatchObject({ fencingToken: grant.fencingToken + 1 });
      expect(noted?.detail).toMatch(new RegExp(`^\\S+@\\S+: INC-4711 \\(${name}\\)$`));
      lease.abandon();
      const again = json(await here.seal('--fence', name, '--json'));
      expect(again).toMatchObject({
        ...{ schema: 'leasehold/seal/v1', outcome: 'unchanged', fence: name, qualified: `${prefix}/reports` },
        ...{ reason: 'INC-4711', operator: expect.stringContaining('@'), token: grant.fencingToken + 1 },
      });
      await expect(here.write[name](grant)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
      const next = { ...grant, fencingToken: grant.fencingToken + 2, leaseId: 'next' };
      await here.write[name](next);
      expect(await fence.highest(grant.resource)).toMatchObject({ leaseId: 'next' });
    },
  );

  test('at a fence that only its address names, with a token, needs no store', async () => {
    const resource = uniqueName('reports');
    const ledger = postgresFence(pool);
    const token = Date.now() * 1000;
    const args = ['seal', resource, '--prefix', 'shop', '-u', NOBODY, '--reason', 'restored', '--yes'];
    const [without, done, other] = await Promise.all([
      callCli([...args, '--database', site.url]),
      callCli([...args, '--database', site.url, '--token', String(token)]),
      callCli([...args, '--redis-fence', redisUrl, '--token', '7', '--json']),
    ]);
    expect(without).toMatchObject({ code: 4, stdout: '' });
    expect(done.code).toBe(0);
    expect(done.stderr).toContain('owner    not known: the store does not answer');
    expect(done.stderr).toContain('not kept in the log of the resource: the store does not answer');
    expect(await ledger.highest(`shop/${resource}`)).toEqual({ fencingToken: token, leaseId: null });
    expect(json(other)).toMatchObject({ outcome: 'sealed', before: null, after: { fencingToken: 7, leaseId: null } });
  });

  test('does nothing unless the name of the resource is typed; at the token of the owner it shuts out the owner', async () => {
    await using here = shop();
    const lease = await here.manager.acquire('reports', { fences: [here.ledger] });
    const { grant, fencingToken } = lease;
    const args = ['--fence', 'ledger', '--token', String(fencingToken)];
    const wrong = await here.sealTyping('report', ...args);
    expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('nothing was done') });
    const alone = await here.sealAlone(...args);
    expect(alone).toMatchObject({ code: 2, stdout: '' });
    expect(alone.stderr).toMatch(/now {6}admitted .*this needs --yes\nTry: leasehold seal reports --yes …\n$/s);
    await here.write.ledger(grant);
    expect(await here.sealTyping('reports', ...args)).toMatchObject({ code: 0 });
    expect(await here.ledger.highest(grant.resource)).toEqual({ fencingToken, leaseId: null });
    await expect(here.write.ledger(grant)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    lease.abandon();
  });

  test('refuses what it may not do, each with its code, and seals nothing then', async () => {
    await using here = shop();
    const unknown = await here.seal('--fence', 'ledger');
    expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining('nothing is known of reports') });
    await using lease = await here.manager.acquire('reports');
    const tomorrow = String(Date.now() * 1000 + DAY_US + 60_000_000);
    const [early, inRedis, missing, away] = await Promise.all([
      here.seal('--fence', 'ledger', '--token', tomorrow),
      here.seal('--fence', 'stock', '--token', tomorrow),
      here.seal('--fence', 'nosuch'),
      here.seal('--fence', 'away'),
    ]);
    for (const { code, stdout, stderr } of [early, inRedis]) {
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
      expect(stderr).toMatch(/TOKEN_OUT_OF_RANGE: .*more than 24 h ahead/);
      expect(stderr).toMatch(/ahead {4}1 d before this host's clock/);
    }
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('it has ledger, stock, away') });
    expect(away).toMatchObject({ code: 4, stdout: '', stderr: expect.stringContaining('ECONNREFUSED') });
    expect(away.stderr).not.toContain('s3cret');
    for (const fence of [here.ledger, here.stock]) expect(await fence.highest(lease.grant.resource)).toBeNull();
  });

  test('a later owner that is admitted while somebody thinks about it is not shut out', async () => {
    await using here = shop();
    const lease = await here.manager.acquire('reports', { fences: [here.ledger] });
    const later = { ...lease.grant, fencingToken: lease.fencingToken + 5, leaseId: 'later' };
    const token = String(lease.fencingToken + 1);
    const blocker = await pool.connect();
    try {
      // Holds the row, so that the seal has to wait, and is overtaken.
      await blocker.query('begin');
      await blocker.query(`select leasehold.activate($1, $2, $3)`, [later.resource, later.fencingToken, later.leaseId]);
      const sealing = here.seal('--fence', 'ledger', '--token', token, '--json');
      await isBlocked(pool, 1);
      await blocker.query('commit');
      expect(json(await sealing)).toMatchObject({ outcome: 'passed', after: { leaseId: 'later' } });
    } finally {
      await blocker.query('rollback');
      blocker.release();
    }
    await here.write.ledger(later);
    lease.abandon();
  });
});
