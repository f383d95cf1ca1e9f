// leasehold evidence, on a real store.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager } from '@leasehold/core';
import { redisDiagnosisAcl, redisStore } from '@leasehold/core/redis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { callCli } from '../e2e/fixtures/cli-process.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
let dir: string;

beforeAll(() => void (dir = guardedFolder('evidence')));
afterAll(() => removeFolder(dir));

interface Written {
  readonly code: number | null;
  readonly stderr: string;
  readonly files: readonly string[];
  readonly markdown: string;
  readonly text: string;
  readonly json: {
    readonly schema: string;
    readonly missing: readonly { readonly what: string; readonly why: string }[];
    readonly diagnosis: {
      readonly verdict: { readonly code: string };
      readonly lease: { readonly leaseId: string } | null;
    };
    readonly events: readonly { readonly event: string; readonly detail: string }[] | null;
    readonly vitals: object | null;
    readonly writtenBy: { readonly operator: string };
    readonly target: object;
    readonly versions: { readonly leasehold: string };
  };
}

async function evidence(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Written> {
  const out = join(dir, uniqueName('out'));
  const { code, stderr } = await callCli(['evidence', 'reports', '--out', out, ...args], env);
  const files = readdirSync(out).toSorted();
  const [json = '', markdown = ''] = files.map((name) => readFileSync(join(out, name), 'utf8'));
  for (const name of files) expect(statSync(join(out, name)).mode & 0o777).toBe(0o600);
  expect(files.map((name) => name.replace(/\d{8}T\d{6}/, '…'))).toEqual([
    ...['leasehold-reports-…Z.json', 'leasehold-reports-…Z.md'],
  ]);
  return { code, stderr, files, markdown, text: json + markdown, json: JSON.parse(json) as Written['json'] };
}

describe.concurrent('leasehold evidence', () => {
  test('writes down all there is: verdict, record, events, vitals, servers, fences, who wrote it and whom was asked', async () => {
    const prefix = uniqueName('incident');
    const config = join(dir, `${prefix}.yaml`);
    writeFileSync(
      config,
      `version: 1\nstore: { redis: '${redisUrl}', prefix: ${prefix} }\nfences: { ledger: { redis: '${redisUrl}' } }\njobs: { none: { every: 1h, handler: ./none.js } }\n`,
    );
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all' });
    await using lease = await leases.acquire('reports');
    const { code, json, markdown, stderr } = await evidence(['-c', config]);
    expect(code).toBe(0);
    expect(json).toMatchObject({
      schema: 'leasehold/incident/v1',
      diagnosis: { verdict: { code: 'held' }, lease: { leaseId: lease.leaseId }, fences: [{ name: 'ledger' }] },
      events: [{ event: 'acquired' }],
      vitals: { worstPauseMs: expect.any(Number) },
      target: { prefix, origin: config },
      versions: { node: process.version },
      writtenBy: { operator: expect.stringContaining('@') },
      missing: [],
    });
    expect(json.versions.leasehold).toMatch(/^\d+\.\d+\.\d+/);
    expect(markdown).toContain(lease.leaseId);
    expect(markdown).toContain('## What is missing\n\nNothing.');
    expect(stderr).not.toContain('missing:');
  });

  test('of a store that answers in part says what is missing, and why', async () => {
    const [prefix, user] = [uniqueName('incident'), uniqueName('half')];
    await using client = await connectRedis(redisUrl);
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }) });
    await using lease = await leases.acquire('reports');
    await client.set(`${prefix}:{reports}:log`, 'not a log');
    const [command = '', ...rights] = redisDiagnosisAcl(prefix, user).replace(' +info', '').split(' ');
    await client.call(command, ...rights, '>s3cret-of-half');
    try {
      const url = redisUrl.replace('redis://', `redis://${user}:s3cret-of-half@`);
      const { code, json, markdown, stderr, text } = await evidence(['-u', url, '--prefix', prefix]);
      expect(code).toBe(0);
      expect(json.diagnosis.lease?.leaseId).toBe(lease.leaseId);
      expect(json.events).toBeNull();
      const missing = json.missing.map(({ what }) => what);
      expect(missing).toContain('events');
      expect(missing.find((what) => what.includes('persistence'))).toMatch(/version.* of 127\.0\.0\.1:\d+$/);
      expect(json.missing.find(({ what }) => what.includes('persistence'))?.why).toMatch(/^not permitted: NOPERM/);
      expect(missing).toContain('fences');
      expect(stderr).toContain('missing: events (');
      expect(markdown).toContain('They could not be read.');
      expect(text).not.toContain('s3cret');
    } finally {
      await client.call('ACL', 'DELUSER', user);
    }
  });

  test('of a store that nobody reaches is written all the same, and ends with 4', async () => {
    const { code, json, text, markdown } = await evidence(['-u', 'redis://:s3cret@127.0.0.1:1']);
    expect(code).toBe(4);
    expect(json.diagnosis.verdict.code).toBe('unknown');
    expect(json.missing.map(({ what }) => what)).toEqual(expect.arrayContaining(['record', 'events', 'fences']));
    expect(markdown).toContain('None that could be read.');
    expect(text).not.toContain('s3cret');
  });

  test('has no password, even of one that somebody typed as a reason', async () => {
    const prefix = uniqueName('incident');
    await using leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }) });
    await using _lease = await leases.acquire('reports');
    const reason = 'see redis://ann:hunter2-of-ann@cache, s3cret-of-shell';
    await leases.revoke('reports', { operator: 'ann', reason });
    const { json, text } = await evidence(['-u', redisUrl, '--prefix', prefix], {
      REDISCLI_AUTH: 's3cret-of-shell',
    }).catch(() => evidence(['-u', redisUrl, '--prefix', prefix], { PGPASSWORD: 's3cret-of-shell' }));
    expect(json.events?.[0]?.detail).toBe('ann: see redis://***@cache, ***');
    expect(text).not.toMatch(/hunter2|s3cret/);
  });

  test('is for programs one object with the two names; and nothing is asked where nothing can be written', async () => {
    const out = join(dir, 'for-programs');
    const { stdout, code } = await callCli(['evidence', 'reports', '--out', out, '--json', '-u', redisUrl]);
    expect(code).toBe(0);
    const told = JSON.parse(stdout) as { readonly json: string; readonly markdown: string };
    expect(told).toMatchObject({ schema: 'leasehold/evidence/v1', resource: 'reports', verdict: expect.any(String) });
    expect([told.json, told.markdown].map((path) => statSync(path).isFile())).toEqual([true, true]);
    const file = join(out, 'a-file');
    writeFileSync(file, '');
    const refused = await callCli(['evidence', 'reports', '--out', file, '-u', redisUrl]);
    expect(refused).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`nothing was written to ${file}`),
    });
  });
});
