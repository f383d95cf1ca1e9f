import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager } from '@leasehold/core';
import { redisStore, type RedisSource } from '@leasehold/core/redis';
import { Cluster } from 'ioredis';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { freePort } from '../../scripts/services/ports.mjs';
import { uniqueName } from '../support/redis-client.ts';
import { RedisCluster } from '../support/redis-cluster.ts';
import { SentinelGroup } from '../support/redis-sentinel.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { callCli, startCli } from './fixtures/cli-process.ts';

/** Asked of clients: a certificate that the server trusts, and a password. */
const PASSWORD = 'p@ss/w:rd';

let folder: string;
let tlsPort: number;
let tlsServer: RedisServer;
let sentinel: SentinelGroup;
let cluster: RedisCluster;

beforeAll(async () => {
  folder = guardedFolder('stores');
  tlsPort = await freePort();
  const made = await generate([{ name: 'commonName', value: 'cache.test' }], {
    keyType: 'ec',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'cache.test' }] }],
  });
  mkdirSync(join(folder, 'certs'));
  writeFileSync(join(folder, 'certs/key.pem'), made.private);
  writeFileSync(join(folder, 'certs/cert.pem'), made.cert);
  writeFileSync(join(folder, 'job.mjs'), "export default ({ log }) => log.info('it ran');\n");
  const file = (name: string): string => join(folder, 'certs', name);
  [tlsServer, sentinel, cluster] = await Promise.all([
    startRedis({
      scope: 'file',
      args: [
        ...['--tls-port', String(tlsPort), '--tls-auth-clients', 'yes', '--tls-ca-cert-file', file('cert.pem')],
        ...['--tls-cert-file', file('cert.pem'), '--tls-key-file', file('key.pem')],
      ],
    }),
    SentinelGroup.start('file'),
    RedisCluster.start(3, 'file'),
  ]);
});

afterAll(async () => {
  await Promise.all([tlsServer.stop(), sentinel[Symbol.asyncDispose](), cluster.stop()]);
  removeFolder(folder);
});

interface Kind {
  readonly name: string;
  /** As it stands in a config. */
  readonly redis: () => object;
  /** The way there without the command. */
  readonly source: () => RedisSource;
  readonly address: () => string;
  readonly prefix: string;
}

const kinds: readonly Kind[] = [
  {
    name: 'TLS, with certificates on both sides and a name that is not the host',
    redis: () => ({
      url: `rediss://127.0.0.1:${tlsPort}/1`,
      password: '${REDIS_PASSWORD:-}',
      tls: {
        ca: './certs/cert.pem',
        cert: './certs/cert.pem',
        key: '${REDIS_KEY:-./certs/key.pem}',
        servername: 'cache.test',
      },
    }),
    source: () => `${tlsServer.url}/1`,
    address: () => `rediss://127.0.0.1:${tlsPort}/1`,
    prefix: 'bull',
  },
  {
    name: 'Sentinel',
    redis: () => ({ sentinels: [`127.0.0.1:${sentinel.port}`], name: sentinel.connection.name }),
    source: () => ({ ...sentinel.connection }),
    address: () => `redis ${sentinel.connection.name} by sentinel 127.0.0.1:${sentinel.port}`,
    prefix: 'bull',
  },
  {
    name: 'Cluster',
    redis: () => ({ cluster: cluster.addresses.map(({ host, port }) => ({ host, port })) }),
    source: () => new Cluster(cluster.addresses, { lazyConnect: true }),
    address: () => `redis cluster ${cluster.addresses.map(({ host, port }) => `${host}:${port}`).join(',')}`,
    prefix: '{bull}',
  },
];

describe.concurrent.each(kinds)('a config whose store is $name', ({ redis, source, address, prefix: queuePrefix }) => {
  test('is listed by ls, and its jobs run: cron, and a queue on the same Redis, with a fence there', async () => {
    const prefix = uniqueName('store');
    const file = join(folder, `${prefix}.json`);
    const queue = uniqueName('queue');
    const config = {
      version: 1,
      store: { redis: redis(), prefix },
      fences: { data: { redis: redis() } },
      jobs: {
        tick: { cron: '* * * * * *', handler: './job.mjs', lease: { fences: ['data'] } },
        take: {
          queue,
          prefix: queuePrefix,
          handler: './job.mjs',
          lease: { resource: 'all', fences: ['data'] },
        },
      },
    };
    writeFileSync(file, JSON.stringify(config));
    await using run = startCli(['run', file]);
    await run.wrote('"msg":"ready"');
    const added = await callCli(['trigger', 'take', file, '--data', '1']);
    expect(added).toMatchObject({
      code: 0,
      stderr: `${address()} · prefix ${queuePrefix} · queue ${queue} · ${file}\n`,
    });
    for (const job of ['tick', 'take']) while (!ran(run.stdout, job)) await run.wroteMore();
    run.kill('SIGTERM');
    expect(await run.end).toMatchObject({ code: 0 });

    const manager = new LeaseManager({ store: redisStore(source(), { prefix }) });
    const lease = await manager.acquire('held');
    const ls = await callCli(['ls', '-c', file, '--held', '--json']);
    expect(ls).toMatchObject({ code: 0, stderr: `${address()} · prefix ${prefix} · ${file}\n` });
    expect(JSON.parse(ls.stdout)).toMatchObject({ leases: [{ resource: 'held', fencingToken: lease.fencingToken }] });
    await lease.release();
    await manager.close();
  });
});

/** Whether the handler of the job has logged. */
function ran(output: string, job: string): boolean {
  return output.split('\n').some((line) => line.includes('"it ran"') && line.includes(`"job":"${job}"`));
}

describe('the command line', () => {
  const certs = (): string[] => {
    const [cert, key] = [join(folder, 'certs/cert.pem'), join(folder, 'certs/key.pem')];
    return ['--tls', '--cacert', cert, '--cert', cert, '--key', key];
  };
  const ls = (...args: string[]) => callCli(['ls', '--json', ...args]);

  test('reaches TLS with the flags of redis-cli, and checks whom it speaks to', async () => {
    const url = `redis://127.0.0.1:${tlsPort}`;
    const [tls = '', cacert = '', ca = ''] = certs();
    const [both, otherName, noneOfOurs, noKey] = await Promise.all([
      ls('-u', url, ...certs(), '--sni', 'cache.test'),
      ls('-u', url, ...certs()),
      ls('-u', url, tls, cacert, ca, '--sni', 'cache.test'),
      ls('-u', url, tls, '--cert', ca),
    ]);
    expect(both).toMatchObject({ code: 0 });
    expect(otherName).toMatchObject({ code: 4, stderr: expect.stringContaining('127.0.0.1 is not in the cert') });
    expect(noneOfOurs).toMatchObject({ code: 4, stderr: expect.stringContaining('Nothing is known') });
    expect(noKey).toMatchObject({ code: 2, stderr: expect.stringContaining('--cert needs --key') });
  });

  test('reaches a whole Cluster by one node, with --cluster', async () => {
    const prefix = uniqueName('cluster');
    const manager = new LeaseManager({
      store: redisStore(new Cluster(cluster.addresses, { lazyConnect: true }), { prefix }),
    });
    const leases = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => manager.acquire(name)));
    const { host, port } = cluster.addresses[0] as { host: string; port: number };
    const { code, stdout } = await ls('-u', `redis://${host}:${port}`, '--cluster', '--prefix', prefix);
    expect(code).toBe(0);
    const { leases: listed } = JSON.parse(stdout) as { readonly leases: readonly { readonly resource: string }[] };
    expect(listed.map(({ resource }) => resource).toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
    for (const lease of leases) await lease.release();
    await manager.close();
  });
});

test('a password from the environment reaches the server and no message, and a wrong one is not told', async () => {
  await using server = await startRedis({ args: ['--requirepass', PASSWORD] });
  const file = join(folder, 'password.yaml');
  writeFileSync(
    file,
    `version: 1\nstore: { redis: { host: 127.0.0.1, port: ${server.port}, password: '\${PASS}' } }\njobs: { a: { every: 1s, handler: ./job.mjs } }\n`,
  );
  expect(await callCli(['ls', '-c', file], { PASS: PASSWORD })).toMatchObject({ code: 0 });
  const refused = await callCli(['ls', '-c', file, '--verbose'], { PASS: `${PASSWORD}x` });
  expect(refused.code).toBe(4);
  expect(`${refused.stdout}${refused.stderr}`).not.toContain(PASSWORD);
});
