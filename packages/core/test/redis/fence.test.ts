import { describe, expect, test } from 'vitest';

import { redisFence } from '../../src/redis/fence.ts';
import type { IoredisClient } from '../../src/redis/ioredis.ts';
import { unreadable } from '../thrown.ts';

const grant = { resource: 'shop/pears', fencingToken: 1_700_000_000_000_000, leaseId: 'a1b2' };

/** A client of somebody else's, in front of no server. */
function clientThat(call: () => unknown): IoredisClient {
  return { options: {}, status: 'ready', stream: {}, call, on: () => {} } as unknown as IoredisClient;
}

describe('a client that throws what cannot be looked at', () => {
  const ways: readonly (readonly [string, (make: () => unknown) => () => unknown])[] = [
    [
      'at once',
      (make) => () => {
        throw make();
      },
    ],
    [
      'in its promise',
      (make) => async () => {
        throw make();
      },
    ],
  ];
  test.each(ways.flatMap(([how, way]) => unreadable.map(([what, make]) => ({ how, what, call: way(make) }))))(
    '$how, $what: the fence gives no answer',
    async ({ call }) => {
      const fence = redisFence(clientThat(call), { timeout: 50 });
      const calls = [
        () => fence.activate(grant),
        () => fence.write(grant, (tx) => tx.call('PING')),
        () => fence.highest(grant.resource),
      ];
      for (const each of calls) await expect(each()).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    },
  );
});
