import { describeLeaseStore, runStoreCase, storeCases } from '@leasehold/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { redisHooks, redisSubject } from './redis-subject.ts';

// A server of our own: some cases lose its data, fill it up or kill it.
let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file', args: ['--repl-diskless-sync-delay', '0'] });
});

afterAll(() => server.stop());

const { leftOut } = describeLeaseStore('Redis', () => redisSubject(server), redisHooks);

const clockCases = storeCases.filter(({ needs }) => needs.includes('stepClock'));

describe('Redis as a lease store, when its clock is set', () => {
  for (const storeCase of clockCases) {
    testNeeding('libfaketime', storeCase.name, async () => {
      using faketime = new FakeTime();
      await using server = await startRedis({ faketime });
      let aheadMs = 0;
      await runStoreCase(storeCase, async () => ({
        ...(await redisSubject(server)),
        stepClock: async (ms) => faketime.step((aheadMs += ms)),
      }));
    });
  }
});

test('every case of the suite runs on Redis', () => {
  const run = new Set(clockCases.map(({ name }) => name));
  expect(leftOut.filter((name) => !run.has(name))).toEqual([]);
});
