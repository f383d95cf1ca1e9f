import { expect, test } from 'vitest';

import { formatProblems, parseConfig } from '../../src/index.ts';
import { problemsOf, withJob } from './support.ts';

const env = { HOST: 'cache', PORT: '9464', EMPTY: '', N: '3', ON: 'true', TWICE: '${HOST}', BRACE: '{data.id}' };

function resourceOf(resource: string): unknown {
  const { settings } = parseConfig(withJob({ every: '5m', handler: './a.js', lease: { resource } }), { env });
  return settings.jobs[0]?.lease.resource;
}

test('variables fill in texts, an empty one takes the default if there is one, and what they hold is not read again', () => {
  expect(resourceOf('a-${HOST}-${PORT}')).toBe('a-cache-9464');
  expect(resourceOf('${NONE:-b}${HOST:-c}${EMPTY:-d}x${EMPTY}')).toBe('bcachedx');
  expect(resourceOf('${NONE:-}x${NONE:-a:-b}')).toBe('xa:-b');
  expect(() => resourceOf('${TWICE}')).toThrow('has braces');
});

test('a doubled dollar is one that stays', () => {
  expect(resourceOf('$HOST $5 $$')).toBe('$HOST $5 $$');
  expect(() => resourceOf('$${HOST}')).toThrow('has braces');
});

test('numbers and switches may come from the environment', () => {
  const { settings } = parseConfig(
    withJob(
      { queue: 'a', concurrency: '${N}', handler: './a.js', lease: { resource: 'a' } },
      {
        store: { redis: 'redis://${HOST}', quarantine: '${ON}' },
        server: { listen: '${PORT}' },
        shutdown: { grace: '${N}s' },
      },
    ),
    { env },
  );
  expect(settings).toMatchObject({
    store: { redis: 'redis://cache', quarantine: true },
    server: { listen: { port: 9464 } },
    shutdown: { graceMs: 3000, exitOnAbandon: false },
    jobs: [{ concurrency: 3 }],
  });
});

test('keys are never filled in', async () => {
  const problems = await problemsOf(() =>
    parseConfig(withJob({ every: '5m', handler: './a.js', '${HOST}': 1 }), { env }),
  );
  expect(problems.map(({ path }) => path)).toEqual(['jobs.job["${HOST}"]']);
});

test('a variable that objects inherit is not set', async () => {
  const [problem] = await problemsOf(() => resourceOf('${constructor}'));
  expect(problem?.message).toContain('the variable constructor, which is not set');
});

/** Every place for a value, each filled in with something that cannot be there. */
test('what came from the environment is in no message, wherever it stands', async () => {
  const SECRET = 'hunter2';
  const places = [
    (v: string) => withJob({ cron: v, handler: v, timezone: v, timeZone: v, overlap: v, retry: v, maxRandomDelay: v }),
    (v: string) =>
      withJob({ every: v, handler: `${v}.js`, isolate: v, manual: v, lease: { ttl: v, fences: [v], activate: v } }),
    (v: string) => withJob({ every: '5m', handler: './a.js', lease: { fences: [v], resource: `{${v}}` } }),
    (v: string) =>
      withJob({ queue: `${v}:`, handler: './a.js', limiter: v, lease: { resource: `{${v}.x}`, scope: v } }),
    (v: string) => withJob({ queue: 'a', handler: './a.js', connection: v, concurrency: v, lease: v }),
    (v: string) => withJob(v as never, { store: v, fences: { a: v, b: { postgres: v, schema: `${v}!` } }, server: v }),
    (v: string) =>
      withJob({ every: v }, { store: { redis: `x${v}`, prefix: `${v}/` }, defaults: v, shutdown: { grace: v } }),
    (v: string) =>
      ({ version: v, store: { redis: `redis://${v}:${v}@h/${v}` }, server: { listen: v }, jobs: v }) as never,
  ];
  for (const place of places) {
    const problems = await problemsOf(() => parseConfig(place('${SECRET}'), { env: { SECRET } }));
    const said = formatProblems(problems);
    expect(said).not.toContain(SECRET);
    expect(said).toContain('${SECRET}');
  }
});
