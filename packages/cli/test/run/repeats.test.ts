import { expect, test } from 'vitest';

import { Repeats, withoutRepeats } from '../../src/run/repeats.ts';
import { recordingLog } from './support/log.ts';

test('the same warning about the same lease is told once in 5 s, with the number of those in between', () => {
  const { log, lines } = recordingLog();
  let now = 0;
  const logger = withoutRepeats(log, new Repeats(() => now));
  for (; now < 11_000; now += 1000) logger.warn({ leaseId: 'a' }, 'extend had no answer');
  expect(lines.map(({ repeats }) => repeats)).toEqual([undefined, 4, 4]);
});

test('other leases, other warnings, and what is about no lease are told at once', () => {
  const { log, lines } = recordingLog();
  const logger = withoutRepeats(log, new Repeats(() => 0));
  logger.warn({ leaseId: 'a' }, 'extend had no answer');
  logger.warn({ leaseId: 'b' }, 'extend had no answer');
  logger.warn({ leaseId: 'a' }, 'lease lost');
  logger.warn({}, 'something else');
  logger.warn({}, 'something else');
  logger.error({ leaseId: 'a' }, 'broken');
  logger.error({ leaseId: 'a' }, 'broken');
  expect(lines).toHaveLength(7);
});

test('trouble that was over for a while counts anew', () => {
  let now = 0;
  const repeats = new Repeats(() => now);
  expect([repeats.tell('a'), repeats.tell('a')]).toEqual([0, undefined]);
  now = 10_000;
  expect(repeats.tell('a')).toBe(0);
});
