import { pathToFileURL } from 'node:url';
import { ConfigError } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

import { checkConfig, loadConfig, parseConfig, resolveHandlers, runConfig } from '../../src/index.ts';
import { folderOf, problemsOf, withJob } from './support.ts';

const sound = withJob({ every: '5m', handler: './a.js' });

/** What is said of a wrong first argument; fails if nothing is. */
async function saidOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('it is taken');
}

describe('a first argument that is none', () => {
  test.each<[what: string, given: unknown, said: RegExp]>([
    [
      'the path of a file',
      'leasehold.yaml',
      /^CONFIG: config: is 'leasehold.yaml': .* await loadConfig\('leasehold.yaml'\)$/,
    ],
    ['an address with a password', 'redis://:hunter2@h', /^CONFIG: config: is a text: .* await loadConfig\(file\)$/],
    ['a URL', pathToFileURL('/a/leasehold.yaml'), /is a URL: .* loadConfig\(fileURLToPath\(url\)\)$/],
    ['nothing', undefined, /is undefined: .* give await loadConfig\(file\)$/],
    ['null', null, /is null: /],
    ['a number', 5, /is a number: /],
    ['a list', [], /is a list: /],
    ['a function', () => sound, /is a function: /],
    ['a config that is not there yet', Promise.resolve(sound), /is a promise: .* await what loadConfig gives$/],
    ['a config of another copy', { ...parseConfig(sound), source: {} }, /another copy of leasehold: /],
  ])('of runConfig, resolveHandlers and checkConfig is told of, with what to give: %s', async (_what, given, said) => {
    expect(await saidOf(() => runConfig(given as never))).toMatch(said);
    expect(await saidOf(() => resolveHandlers(given as never))).toMatch(said);
    expect(await saidOf(() => checkConfig(given as never))).toMatch(said);
  });

  test('a config that is written out is for runConfig; the others want it loaded', async () => {
    expect(await saidOf(() => resolveHandlers(sound))).toContain('must be loaded; give parseConfig(config)');
    expect(await saidOf(() => checkConfig(sound))).toContain('must be loaded; give parseConfig(config)');
  });

  test.each<[given: unknown, said: RegExp]>([
    [sound, /^CONFIG: file: is an object: must be the path of a config; .* parseConfig$/],
    [undefined, /is undefined: /],
    ['', /is empty: /],
    [new URL('file:///a.yaml'), /is a URL: .* fileURLToPath\(url\)$/],
    ['rediss://app:secret@cache:6379', /^CONFIG: file: is an address, not shown .* name a file, .* with --url$/],
  ])('of loadConfig is told of: %s', async (given, said) => {
    expect(await saidOf(() => loadConfig(given as never))).toMatch(said);
  });
});

test('runConfig tells what is wrong with the code of a config that cannot be used either, but for handlers that were given', async () => {
  await using folder = await folderOf({ 'none.mjs': 'export {};' });
  const job = { every: '5', handler: folder.file('none.mjs') };
  const config = { version: 1, store: { redis: 'redis://127.0.0.1:1' }, jobs: { own: job, given: job } };
  const problems = await problemsOf(() => runConfig(config as never, { handlers: { given: () => {} } }));
  expect(problems.map(({ path }) => path).toSorted()).toEqual([
    'jobs.given.every',
    'jobs.own.every',
    'jobs.own.handler',
  ]);
});
