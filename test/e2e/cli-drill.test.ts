import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseManager } from '@leasehold/core';
import { redisAcl, redisStore } from '@leasehold/core/redis';
import type { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';

import { Gate } from '../../packages/cli/src/drill/gate.ts';
import { sourceOf } from '../../packages/cli/src/redis.ts';
import { assertWellFormed } from '../../packages/cli/test/output/well-formed.ts';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { connectPool, createSite as createSiteOf } from '../postgres/support.ts';
import { connectRedis } from '../support/redis-client.ts';
import { RedisCluster } from '../support/redis-cluster.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { callCli, runCli, startCli } from './fixtures/cli-process.ts';

const SIX = ['kill', 'pause', 'partition', 'clock', 'release', 'takeover'];
const TTL = '1500ms';
/** Each starts three to a dozen processes. */
const SLOW = { timeout: 60_000 };
const OWN = ['>pw', '+rpush', '+lrange'];
const brokenFence = fileURLToPath(new URL('fixtures/drill-broken-fence.mjs', import.meta.url));

interface Drilled {
  readonly schema: string;
  readonly isProven: boolean;
  readonly proofs: readonly {
    readonly name: string;
    readonly verdict: string;
    readonly failures: readonly string[];
    readonly abort: { readonly maxMs: number; readonly boundMs: number } | null;
    readonly takeover: { readonly maxMs: number; readonly boundMs: number } | null;
    readonly refusedWrites: number;
  }[];
}

/** A server on which others have data, with users for drills that may write the drill's keys alone. */
interface Site {
  readonly server: RedisServer;
  readonly client: Redis & AsyncDisposable;
  readonly url: (user: string) => string;
}

async function createSite(): Promise<Site> {
  const server = await startRedis({ scope: 'file' });
  const client = await connectRedis(server.url);
  await client.mset('plain', 'text', 'shop:cart:{42}', '1');
  await client.hset('shop:{old}', { owner: '', lease_id: 'x', term: 'over 1 0 1 1', fencing_token: '1' });
  // The smallest rights that the page on the command tells of.
  const rights = (user: string): string[] => [...words(redisAcl('leasehold-drill', user, { fence: true })), ...OWN];
  await client.call('ACL', ...rights('looks'), '%R~*');
  // Not even the names of other keys are asked for by it.
  await client.call('ACL', ...rights('blind'), '-scan');
  return { server, client, url: (user) => server.url.replace('redis://', `redis://${user}:pw@`) };
}

const words = (line: string): string[] => line.split(' ').slice(1);

async function keysOf(client: Redis): Promise<readonly string[]> {
  return (await client.keys('*')).toSorted();
}

/** Until the store has only the connection that asks: a process that goes on, or is stopped, has one more. */
async function nobodyIsConnected(client: Redis): Promise<void> {
  await vi.waitFor(
    async () =>
      expect(
        String(await client.call('CLIENT', 'LIST', 'TYPE', 'normal'))
          .trim()
          .split('\n'),
      ).toHaveLength(1),
    {
      timeout: 5000,
    },
  );
}

let site: Site;
let held: Site;
let folder: string;

beforeAll(async () => {
  folder = guardedFolder('drill');
  [site, held] = await Promise.all([createSite(), createSite()]);
});

afterAll(async () => {
  for (const { client, server } of [site, held]) {
    await client[Symbol.asyncDispose]();
    await server.stop();
  }
  removeFolder(folder);
});

describe.concurrent('leasehold drill', () => {
  test('proves the six on a store of others, writes no key but its own, and leaves none behind', SLOW, async () => {
    const before = await keysOf(site.client);
    const [html, junit] = [join(folder, 'drill.html'), join(folder, 'drill.xml')];
    const { code, stdout, stderr } = await runCli(
      ['drill', '--yes', '--ttl', TTL, '--only', SIX.join(','), '--json', '--html', html, '--junit', junit],
      { env: { LEASEHOLD_REDIS_URL: site.url('looks') } },
    );
    const { schema, isProven, proofs } = JSON.parse(stdout) as Drilled;
    expect(proofs.flatMap(({ failures }) => failures)).toEqual([]);
    expect({ code, schema, isProven, names: proofs.map(({ name }) => name) }).toEqual({
      ...{ code: 0, schema: 'leasehold/drill/v1', isProven: true, names: SIX },
    });
    for (const { name, abort, takeover, refusedWrites } of proofs) {
      expect(refusedWrites).toBeGreaterThan(0);
      expect(takeover?.maxMs).toBeLessThanOrEqual(takeover?.boundMs ?? 0);
      if (name === 'kill' || name === 'takeover') expect(abort).toBeNull();
      else expect(abort?.maxMs).toBeLessThanOrEqual(abort?.boundMs ?? 0);
    }
    expect(stderr).toContain('No other key of the store is written');
    expect(stderr + stdout + readFileSync(html, 'utf8')).not.toContain(':pw@');

    expect(await keysOf(site.client)).toEqual(before);
    expect(await site.client.call('ACL', 'LOG')).toEqual([]);
    await nobodyIsConnected(site.client);

    const page = readFileSync(html, 'utf8').replace(/^<!doctype html>\n/, '');
    assertWellFormed(page);
    expect(page.match(/<svg /g)).toHaveLength(SIX.length);
    expect(page).not.toMatch(/<script|src=|<link|@import|https?:(?!\/\/www\.w3\.org)/);
    const report = readFileSync(junit, 'utf8').replace(/^<\?xml .*\?>\n/, '');
    assertWellFormed(report);
    expect(report).toContain('tests="6" failures="0"');
  });

  test('who is asked and says something else begins nothing', async () => {
    const before = await keysOf(site.client);
    const { code, stderr } = await callCli(['drill', '-u', site.server.url, '--only', 'kill'], {}, 'yes\n');
    expect(code).toBe(2);
    expect(stderr).toMatch(/Plays 1 failure, once each.*Type drill to go on: .*nothing was done/s);
    expect(await keysOf(site.client)).not.toContainEqual(expect.stringContaining('{kill-'));
    expect(before).not.toEqual([]);
  });

  test('a store on which a lease is held is refused, of whatever prefix, and nothing is begun', SLOW, async () => {
    await using leases = new LeaseManager({ store: redisStore(held.server.url, { prefix: 'elsewhere' }) });
    await using _lease = await leases.acquire('reports');
    const before = await keysOf(held.client);
    const { code, stdout, stderr } = await callCli(['drill', '--yes', '-u', held.server.url]);
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
    expect(stderr).toMatch(/refused: leases are held on this store \(elsewhere:\{reports\} by .*--target-is-staging/s);
    expect(await keysOf(held.client)).toEqual(before);

    // The same store, as staging, through a fence that admits everybody; no key of others is even looked at.
    const args = ['drill', '--yes', '--target-is-staging', '--ttl', TTL, '--only', 'pause', '--json'];
    const drilled = await runCli([...args, '--fence-module', brokenFence], {
      env: { LEASEHOLD_REDIS_URL: held.url('blind') },
    });
    const { isProven, proofs } = JSON.parse(drilled.stdout) as Drilled;
    expect({ code: drilled.code, isProven, verdict: proofs[0]?.verdict }).toEqual({
      ...{ code: 1, isProven: false, verdict: 'failed' },
    });
    const failures = proofs[0]?.failures.join('\n');
    expect(failures).toContain('not so: the fence refuses a late write with the old token (written)');
    expect(failures).toMatch(/^S1 at a fence the token of what is accepted never goes down$/m);
    expect(failures).toMatch(/^S3 what a fence accepts of a grant is one unbroken run/m);
    expect(await held.client.call('ACL', 'LOG')).toEqual([]);
    expect(await keysOf(held.client)).toEqual(before);
  });

  test('a fence of the config is drilled where it is, and its row goes with the drill', SLOW, async () => {
    await using database = await createSiteOf(inject('postgresUrl'));
    await using pool = connectPool(database.url);
    const file = join(folder, 'leasehold.yaml');
    writeFileSync(
      file,
      `version: 1
store: { redis: '${site.server.url}', prefix: shop }
fences: { ledger: { postgres: '${database.url}' } }
jobs: { none: { every: 1h, handler: ./none.js } }
`,
    );
    const args = ['drill', '--yes', '--ttl', TTL, '--only', 'kill', '--json', '-c', file, '--fence', 'ledger'];
    const { code, stdout } = await runCli(args);
    const { proofs } = JSON.parse(stdout) as Drilled;
    expect({ code, failures: proofs[0]?.failures, refused: proofs[0]?.refusedWrites }).toEqual({
      ...{ code: 0, failures: [], refused: 1 },
    });
    expect((await pool.query('select from leasehold.fence')).rowCount).toBe(0);
  });

  test('a Cluster is cut off at every node, and what was sent meanwhile arrives', async () => {
    await using cluster = await RedisCluster.start();
    const nodes = cluster.addresses.slice(0, 1);
    await using gate = await Gate.open({
      kind: 'cluster',
      nodes,
      username: undefined,
      password: undefined,
      tls: undefined,
    });
    const client = sourceOf(gate.redis, gate.detours) as Cluster;
    try {
      await client.connect();
      gate.hold();
      const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
      const sent = Promise.all(keys.map((key) => client.set(key, key)));
      await gate.caught();
      const there = (): Promise<number[]> => Promise.all(cluster.members.map(({ raw }) => raw.dbsize()));
      expect(await there()).toEqual([0, 0, 0]);
      expect(gate.release()).toBeGreaterThan(0);
      await sent;
      // On each of them some: none was reached by a way around the gate.
      expect(await there()).toEqual([2, 1, 3]);
    } finally {
      client.disconnect();
    }
  });
});

test('Ctrl-C in the middle of a fault ends all processes, removes the scratch keys, and is told', SLOW, async () => {
  const before = await keysOf(site.client);
  await using cli = startCli(['drill', '--yes', '--verbose', '--ttl', '20s', '--only', 'pause'], {
    env: { LEASEHOLD_REDIS_URL: site.url('looks') },
  });
  // The owner is stopped in the same moment.
  await cli.wrote(': pause begins');
  expect((await keysOf(site.client)).length).toBeGreaterThan(before.length);
  cli.kill('SIGINT');
  const { code, stderr } = await cli.end;
  expect(code).toBe(130);
  expect(stderr).toContain('SIGINT: the drill was ended');
  expect(await keysOf(site.client)).toEqual(before);
  await nobodyIsConnected(site.client);
});
