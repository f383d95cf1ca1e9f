import { MemoryLeaseStore } from '@leasehold/core';
import { expect, test } from 'vitest';

import { runConfig, type RunConfigOptions } from '../../src/run/run-config.ts';
import { recordingLog } from './support/log.ts';
import { configOf, intervalJob } from './support/settings.ts';

test.each([
  [null, 'options', 'is null'],
  [{ handler: {} }, 'handler', 'is not an option here; there are handlers, log, signals, only, store'],
  [{ handlers: [] }, 'handlers', 'must be functions by the names of jobs'],
  [{ handlers: { poll: 3 } }, 'handlers.poll', 'is 3: must be a function'],
  [{ log: {} }, 'log', 'must be a pino logger'],
  [{ log: console }, 'log', 'must be a pino logger'],
  [{ signals: 'yes' }, 'signals', 'must be true or false'],
  [{ only: 'poll' }, 'only', 'must be a list of names of jobs'],
  [{ only: [] }, 'only', 'must name a job; leave it out for all of them'],
  [{ only: [1] }, 'only.0', 'must be the name of a job'],
  [{ store: {} }, 'store', 'must be a lease store'],
])('runConfig refuses the options %j, and nothing runs', async (options, option, rule) => {
  let ran = false;
  const usable = { handlers: { poll: () => (ran = true) }, log: recordingLog().log, store: new MemoryLeaseStore() };
  const given = (options === null ? null : { ...usable, ...options }) as unknown as RunConfigOptions;
  const running = runConfig(configOf([intervalJob('poll')]), given);
  await expect(running).rejects.toMatchObject({ code: 'CONFIG', option, message: expect.stringContaining(rule) });
  expect(ran).toBe(false);
});

test('an option of runConfig that is undefined is left out', async () => {
  const options = { log: recordingLog().log, signals: undefined, only: undefined } as unknown as RunConfigOptions;
  await using running = await runConfig(configOf([intervalJob('poll')]), {
    ...options,
    handlers: { poll: () => {} },
    store: new MemoryLeaseStore(),
  });
  expect(running.port).toBeGreaterThan(0);
});
