import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { callCli, type Result } from '../e2e/fixtures/cli-process.ts';
import { startChild, type Child } from '../support/child.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { until } from '../support/redis-cluster.ts';

const redisUrl = inject('redisUrl');
const member = new URL('../e2e/fixtures/member.ts', import.meta.url);
const TTL_MS = 600;

/** A process that holds `reports`, a config that knows its fence, and the command. */
interface Incident extends AsyncDisposable {
  readonly owner: Child;
  readonly prefix: string;
  readonly cli: (verb: string, ...args: string[]) => Promise<Result>;
  readonly json: (verb: string, ...args: string[]) => Promise<Diagnosed>;
}

interface Diagnosed {
  readonly code: number | null;
  readonly schema: string;
  readonly verdict: {
    readonly code: string;
    readonly allowed: { readonly forceRelease: { readonly allowed: boolean; readonly missing: readonly string[] } };
  };
  readonly owner: { readonly state: string };
  readonly lease: { readonly leaseId: string; readonly fencingToken: number };
}

async function incident(): Promise<Incident> {
  const prefix = uniqueName('incident');
  const dir = guardedFolder('incident');
  const file = join(dir, 'leasehold.yaml');
  writeFileSync(
    file,
    `version: 1\nstore: { redis: '${redisUrl}', prefix: ${prefix} }\nfences: { ledger: { redis: '${redisUrl}' } }\njobs: { none: { every: 1h, handler: ./none.js } }\n`,
  );
  const owner = startChild(member, { env: { REDIS_URL: redisUrl, PREFIX: prefix, TTL_MS: String(TTL_MS) } });
  await owner.next('ready');
  owner.send('do', { op: 'hold', resource: 'reports', fenced: true });
  await owner.next('holds');
  const cli = (verb: string, ...args: string[]): Promise<Result> => callCli([verb, '-c', file, ...args]);
  return {
    owner,
    prefix,
    cli,
    async json(verb, ...args) {
      const { code, stdout } = await cli(verb, ...args, '--json');
      return { code, ...(JSON.parse(stdout) as Omit<Diagnosed, 'code'>) };
    },
    async [Symbol.asyncDispose]() {
      await owner.kill9();
      removeFolder(dir);
    },
  };
}

describe('leasehold diagnose and force-release, on a real owner,', () => {
  test('that lives: held, nothing to do; a release by force is refused, and says why', async () => {
    await using here = await incident();
    const { code, schema, verdict, owner, lease } = await here.json('diagnose', 'reports');
    expect({ code, schema, verdict: verdict.code, owner: owner.state }).toEqual({
      ...{ code: 0, schema: 'leasehold/diagnosis/v1', verdict: 'held', owner: 'alive' },
    });
    const refused = await here.cli('force-release', 'reports', '--lease-id', lease.leaseId, '--reason', 'x', '--yes');
    expect(refused.code).toBe(3);
    expect(refused.stderr).toMatch(/UNSAFE_RELEASE reports: not released: .*alive/);
    const text = await here.cli('diagnose', 'reports');
    expect(text.stdout).toMatch(/^reports is held by .*: alive, and (extended|acquired) .* ago\.$/m);
    const hand = await here.cli('diagnose', 'reports', '--by-hand');
    expect(hand.stdout).toContain(`redis-cli -u "$REDIS_URL" HMGET '${here.prefix}:{reports}'`);
  });

  test('that is stopped: paused, then run out but alive; never released by force', async () => {
    await using here = await incident();
    await here.owner.stop();
    const { lease } = await here.json('diagnose', 'reports');
    const { verdict, owner } = await here.json('diagnose', 'reports', '--observe');
    expect([verdict.code, owner.state]).toEqual(['expired-alive', 'stopped']);
    const refused = await here.cli('force-release', 'reports', '--lease-id', lease.leaseId, '--reason', 'x', '--yes');
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain("the owner's process is stopped");
    here.owner.cont();
  });

  test('that was killed: orphaned once two signals agree; released with its fence sealed, and its late write refused', async () => {
    await using here = await incident();
    await here.owner.kill9();
    const first = await here.json('diagnose', 'reports');
    expect(first.owner.state).toBe('gone');
    expect(first.verdict.allowed.forceRelease.allowed).toBe(false);
    const { code, verdict, lease } = await here.json('diagnose', 'reports', '--observe');
    expect([code, verdict.code]).toEqual([3, 'orphaned']);
    expect(verdict.allowed.forceRelease).toEqual({ allowed: true, missing: [] });

    // A line that was pasted too late, about another lease, harms nobody.
    const other = await here.cli('force-release', 'reports', '--lease-id', 'another', '--reason', 'x', '--yes');
    expect(other.code).toBe(3);
    const args = ['reports', '--lease-id', lease.leaseId, '--reason', 'INC-4711', '--yes', '--watch', '20s'];
    await using manager = new LeaseManager({ store: redisStore(redisUrl, { prefix: here.prefix }), owner: 'next' });
    const successor = until(async () => (await manager.inspect('reports'))?.state === 'free').then(() =>
      manager.acquire('reports'),
    );
    // Two operators at once.
    const both = await Promise.all([here.cli('force-release', ...args), here.cli('force-release', ...args)]);
    expect(both.map((each) => each.code).toSorted()).toEqual([0, 3]);
    expect(both.map(({ stdout }) => stdout).join('')).toContain('released (reports');
    const next = await successor;
    expect(both.map(({ stdout }) => stdout).join('')).toMatch(
      new RegExp(
        `The old token was tried again, and refused by ledger\\.\nThe next owner is next .*, token ${next.fencingToken}, \\d+\\.\\d s after the release\\.\n`,
      ),
    );
    await next.release();
    expect((await here.cli('log', 'reports')).stdout).toMatch(/FORCED.*INC-4711/);

    await using client = await connectRedis(redisUrl);
    const ledger = redisFence(client, { name: 'ledger' });
    const { leaseId, fencingToken } = lease;
    const grant = { resource: `${here.prefix}/reports`, leaseId, fencingToken };
    await expect(ledger.write(grant, (tx) => void tx.call('SET', `{${grant.resource}}:late`, 1))).rejects.toMatchObject(
      { code: 'STALE_TOKEN' },
    );
    expect((await here.cli('exec', 'reports', '--', 'true')).code).toBe(0);
  });

  test('without a fence it wants the words that accept two owners', async () => {
    await using here = await incident();
    await here.owner.kill9();
    const { lease } = await here.json('diagnose', 'reports', '--observe');
    const bare = (...args: string[]): Promise<Result> =>
      callCli([
        ...['force-release', 'reports', '--lease-id', lease.leaseId, '--reason', 'x', '--yes', ...args],
        ...['--watch', '0', '-u', redisUrl, '--prefix', here.prefix],
      ]);
    const refused = await bare();
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain(`acceptDoubleExecution 'reports#${lease.fencingToken}'`);
    expect((await bare('--accept-double-execution', 'reports#1')).code).toBe(3);
    const released = await bare('--accept-double-execution', `reports#${lease.fencingToken}`);
    expect(released).toMatchObject({ code: 0, stdout: expect.stringContaining('Two owners may act') });
  });
});
