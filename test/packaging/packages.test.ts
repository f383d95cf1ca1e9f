import * as bullmq from '@leasehold/bullmq';
import * as core from '@leasehold/core';
import * as conditional from '@leasehold/core/conditional';
import * as http from '@leasehold/core/http';
import * as postgres from '@leasehold/core/postgres';
import * as redis from '@leasehold/core/redis';
import * as testing from '@leasehold/core/testing';
import * as cron from '@leasehold/cron';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { root } from '../../scripts/lib/prepare.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { others } from '../bullmq-matrix/versions.mjs';
import { uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { nodes, testOnNode } from './nodes.ts';
import { packAll, type Packed, type PackedPackage } from './pack.ts';
import { checkTypes, typescripts } from './types.ts';

let packed: Packed;
let server: RedisServer;

beforeAll(async () => {
  [packed, server] = await Promise.all([packAll(), startRedis({ scope: 'file' })]);
  writeFileSync(join(packed.project, 'package.json'), JSON.stringify({ type: 'module' }));
  for (const file of ['consumer.cts', 'consumer.ts', 'exercise.cjs', 'idle.mjs', 'suite.ts', 'use.cjs', 'use.mjs']) {
    copyFileSync(fileURLToPath(new URL(`fixtures/${file}`, import.meta.url)), join(packed.project, file));
  }
});

afterAll(async () => {
  await server.stop();
  await packed[Symbol.asyncDispose]();
});

describe.each(['@leasehold/bullmq', '@leasehold/core', '@leasehold/cron', 'leasehold'])('%s', (name) => {
  const its = (): PackedPackage => packed.packages.find(({ manifest }) => manifest.name === name) as PackedPackage;

  test('holds what it needs and nothing else', () => {
    const { files } = its();
    expect([...new Set(files.map((file) => file.split('/')[0]))]).toEqual([
      'LICENSE',
      'README.md',
      ...(name === '@leasehold/core' ? ['alerts', 'dashboards'] : []),
      'dist',
      'package.json',
      ...(name === 'leasehold' ? ['schema.json'] : []),
      ...(name === '@leasehold/core' ? ['sql'] : []),
      'src',
    ]);
    const built = files.filter((file) => file.startsWith('dist/'));
    const sources = files
      .filter((file) => file.startsWith('src/'))
      .map((file) => file.slice('src/'.length, -'.ts'.length));
    const expected = sources.flatMap((source) =>
      ['.d.ts', '.d.ts.map', '.js', '.js.map'].map((end) => `dist/${source}${end}`),
    );
    expect(built.sort()).toEqual(expected.sort());
  });

  test('every export is a file of it', () => {
    const { manifest, files } = its();
    const targets = Object.values(manifest.exports).flatMap((target) =>
      typeof target === 'string' ? target : Object.values(target),
    );
    expect(targets.length).toBeGreaterThan(3);
    expect(targets.filter((target) => !files.includes(posix.normalize(target)))).toEqual([]);
  });

  test('every source map leads to a source of it', () => {
    const { folder, files } = its();
    const missing = files
      .filter((file) => file.endsWith('.map'))
      .flatMap((file) => {
        const { sources } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { sources: string[] };
        return sources.map((source) => posix.join(posix.dirname(file), source));
      })
      .filter((source) => !files.includes(source));
    expect(missing).toEqual([]);
  });

  test('depends on versions that a registry knows, and on the core that was packed beside it', () => {
    const { manifest } = its();
    const needed = { ...manifest.dependencies, ...manifest.peerDependencies };
    expect(Object.values(needed).filter((range) => !/^[\^>\d]/.test(range))).toEqual([]);
    if (name !== '@leasehold/core') expect(needed['@leasehold/core']).toBe(manifest.version);
  });

  test('has the license, and a README that says what it is and where to read on', () => {
    const { folder } = its();
    expect(readFileSync(join(folder, 'LICENSE'), 'utf8')).toBe(readFileSync(join(root, 'LICENSE'), 'utf8'));
    const readme = readFileSync(join(folder, 'README.md'), 'utf8');
    expect(readme).toContain(`# ${name}\n`);
    expect(readme).toContain('README of the repository');
  });
});

const exported = Object.fromEntries(
  Object.entries({ core, conditional, http, postgres, redis, testing, bullmq, cron }).map(([name, all]) => [
    name,
    Object.keys(all).sort(),
  ]),
);

describe.each(nodes)('on Node %s', (major) => {
  for (const [how, program] of [
    ['import', 'use.mjs'],
    ['require', 'use.cjs'],
  ] as const) {
    testOnNode(major, `every entry point loads by ${how} and does its work`, async (node) => {
      const args = [join(packed.project, program), server.url, uniqueName('packed')];
      const { ok, output, errors } = await thisMachine.run(node, args, { cwd: packed.project });
      // No warning either: one for experimental features would be in the log of every user.
      expect({ ok, errors }).toEqual({ ok: true, errors: '' });
      const { node: version, ...said } = JSON.parse(output) as { node: string };
      expect(version).toMatch(`v${major}.`);
      expect(said).toEqual({
        exports: exported,
        memory: 'held',
        conditional: 9,
        http: expect.any(Number),
        postgres: true,
        redis: '9',
        busy: true,
        bullmq: 'paid true',
        cron: 'manual true',
      });
    });
  }
});

describe.each(nodes)('on Node %s', (major) => {
  testOnNode(
    major,
    'to import an entry point opens nothing, starts nothing and reads nothing but code',
    async (node) => {
      const entryPoints = packed.packages.flatMap(({ manifest: { name, exports } }) =>
        Object.entries(exports).flatMap(([path, target]) => (typeof target === 'string' ? [] : posix.join(name, path))),
      );
      const args = [join(packed.project, 'idle.mjs'), ...entryPoints];
      const { output, errors } = await thisMachine.run(node, args, { cwd: packed.project });
      expect(errors).toBe('');
      expect(JSON.parse(output)).toEqual(Object.fromEntries(entryPoints.map((name) => [name, []])));
    },
  );
});

describe.each(typescripts)('with TypeScript %s', (version) => {
  test('a strict program compiles, and its mistakes do not', { timeout: 60_000 }, async () => {
    // CommonJS may import a package in ESM since 5.8; 5.9 is what we promise.
    const commonJs = Number(version) >= 5.9 ? ['consumer.cts'] : [];
    const checked = await Promise.all([
      checkTypes(version, 'nodenext', packed.project, ['consumer.ts', 'suite.ts', ...commonJs]),
      checkTypes(version, 'bundler', packed.project, ['consumer.ts', 'suite.ts']),
    ]);
    const entryPoints = packed.packages.flatMap(({ folder, manifest }) =>
      Object.values(manifest.exports).flatMap((target) =>
        typeof target === 'string' ? [] : join(folder, target['types'] as string),
      ),
    );
    for (const paths of checked) expect(paths).toEqual(expect.arrayContaining(entryPoints));
  });
});

describe.each(others)('with BullMQ %s', (bullmq) => {
  test('the same program compiles, and makes the same mistakes', { timeout: 60_000 }, async () => {
    const [, checked = []] = await Promise.all(
      (['5.4', '7.0'] as const).map((version) =>
        checkTypes(version, 'nodenext', packed.project, ['consumer.ts'], bullmq),
      ),
    );
    // The newest compiler checks those of BullMQ as well.
    const folders = checked.flatMap((path) => path.match(/\/bullmq@([\d.]+)/)?.[1] ?? []);
    expect(new Set(folders)).toEqual(new Set([bullmq]));
  });
});
