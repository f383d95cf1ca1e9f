import { describeLeaseStore, storeCases } from '@leasehold/core/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { SentinelGroup } from '../support/redis-sentinel.ts';
import { redisHooks, redisSubject } from './redis-subject.ts';

let group: SentinelGroup;

beforeAll(async () => {
  group = await SentinelGroup.start('file');
});

afterAll(() => group[Symbol.asyncDispose]());

// Those two would take the primary out of its group.
const hooks = redisHooks.filter((hook) => hook !== 'promoteLaggingReplica' && hook !== 'restart');

const { leftOut } = describeLeaseStore(
  'Redis behind Sentinel',
  () =>
    redisSubject(group.primary, (url) => {
      const { username, password } = new URL(url);
      return { ...group.connection, ...(username !== '' && { username, password }) };
    }),
  hooks,
);

const beyond = new Set<string>(['stepClock', 'promoteLaggingReplica', 'restart']);

test('what is left out is what needs a server outside of its group, or its clock', () => {
  expect(leftOut).toEqual(
    storeCases.filter(({ needs }) => needs.some((need) => beyond.has(need))).map(({ name }) => name),
  );
});
