import { symlink } from 'node:fs/promises';

import { expect, test } from 'vitest';

import { formatProblems, loadConfig } from '../../src/index.ts';
import { folderOf, problemsOf } from './support.ts';

const head = "version: 1\nstore: { redis: 'redis://127.0.0.1' }\n";
const doubling = Array.from({ length: 40 }, (_, i) => `k${i}: &b${i} [*b${i - 1}, *b${i - 1}]`);

/** What would cost much, what is said of it, and where. */
const costly: readonly (readonly [name: string, file: string, text: () => string | Uint8Array, said: RegExp])[] = [
  [
    'a huge file',
    'a.yaml',
    () => '#'.repeat(1_048_577),
    /^a\.yaml: has 1048577 bytes: a config has at most 1048576\n$/,
  ],
  ['a huge module', 'a.mjs', () => '//'.repeat(600_000), /^a\.mjs: has 1200000 bytes/],
  [
    'brackets in brackets',
    'a.yaml',
    () => '['.repeat(900_000),
    /^a\.yaml:1:\d+: is nested too deeply: more than 32 levels\n$/,
  ],
  ['maps in maps', 'a.yaml', () => `a: ${'{a: '.repeat(200_000)}`, /is nested too deeply/],
  ['lists in lists', 'a.yaml', () => '- '.repeat(400_000), /is nested too deeply/],
  ['keys in keys', 'a.yaml', () => '? '.repeat(400_000), /is nested too deeply/],
  ['JSON in JSON', 'a.json', () => `${'[1,'.repeat(1000)}1${']'.repeat(1000)}`, /is nested too deeply/],
  [
    'indentation',
    'a.yaml',
    () => Array.from({ length: 1000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'),
    /is nested too deeply/,
  ],
  [
    '33 levels',
    'a.yaml',
    () => `${head}jobs: ${'{a: '.repeat(32)}1${'}'.repeat(32)}\n`,
    /is nested too deeply: more than 32 levels\n$/,
  ],
  [
    'anchors that double',
    'a.yaml',
    () => `b: &b-1 [1]\n${doubling.join('\n')}\n`,
    /has too many values to be a config, aliases counted in\n$/,
  ],
  ['an anchor that holds itself twice', 'a.yaml', () => 'a: &a [*a, *a]\n', /is nested too deeply|too many values/],
  ['many keys', 'a.yaml', () => Array.from({ length: 90_000 }, (_, i) => `k${i}: 1`).join('\n'), /too many values/],
  ['many documents', 'a.yaml', () => '---\n'.repeat(200_000), /begins a second document|too many values/],
  ['many stars', 'a.yaml', () => `a: ${'* '.repeat(90_000)}`, /is not quoted/],
  [
    'no UTF-8',
    'a.yaml',
    () => Uint8Array.of(0x61, 0x3a, 0x20, 0xff, 0x0a),
    /^a\.yaml: is no text in UTF-8; save it as UTF-8\n$/,
  ],
  [
    'another ending',
    'a.toml',
    () => 'a = 1',
    /^a\.toml: has the ending \.toml; a config is \.yaml, \.json, \.js or \.ts\n$/,
  ],
];

test.each(costly)('%s ends at once, with a problem', { timeout: 20_000 }, async (_, name, text, said) => {
  await using folder = await folderOf({ [name]: text() });
  const problems = await problemsOf(() => loadConfig(folder.file(name)));
  expect(problems.length).toBeLessThan(5);
  expect(formatProblems(problems).replaceAll(`${folder.path}/`, '')).toMatch(said);
});

test('a device is no config, under whatever name, and is not read', async () => {
  await using folder = await folderOf({});
  await symlink('/dev/zero', folder.file('a.yaml'));
  const [problem] = await problemsOf(() => loadConfig(folder.file('a.yaml')));
  expect(problem?.message).toBe('is no file');
});

test('a folder is no config', async () => {
  await using folder = await folderOf({});
  const [problem] = await problemsOf(() => loadConfig(`${folder.path}/../..yaml`));
  expect(problem?.message).toBe('is not there');
});

test('anchors may be used: their values count where they are used, and are found where they stand', async () => {
  const job = 'every: 5m, handler: ./a.js';
  const text = `${head}jobs:\n  a: { ${job}, lease: &usual { ttl: 10s } }\n  b: { ${job}, lease: *usual }\n`;
  await using folder = await folderOf({ 'a.yaml': text, 'b.yaml': text.replace('10s', '10x') });
  const { settings } = await loadConfig(folder.file('a.yaml'));
  expect(settings.jobs.map(({ lease }) => lease.ttlMs)).toEqual([10_000, 10_000]);
  const problems = await problemsOf(() => loadConfig(folder.file('b.yaml')));
  expect(problems.map(({ line, path }) => [line, path])).toEqual([
    [4, 'jobs.a.lease.ttl'],
    [4, 'jobs.b.lease.ttl'],
  ]);
});
