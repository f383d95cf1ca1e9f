import { expect } from 'vitest';

import { ConfigError, findStale } from '../../errors.ts';
import type { Grant } from '../../fence/fence.ts';
import { newLeaseId } from '../unique.ts';
import type { FenceCase } from './context.ts';

const MINUTE_US = 60_000_000;
const HOUR_US = 60 * MINUTE_US;
const DAY_US = 24 * HOUR_US;

// Where texts, 32-bit numbers and fewer than 16 digits would go wrong, each greater than the one before.
const ASCENDING = [
  ...[1, 9, 10, 99_999, 100_000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1],
  ...[999_999_999_999_999, 1_000_000_000_000_000, 1_000_000_000_000_001],
];

const NO_TOKENS: readonly unknown[] = [
  ...[0, -0, -1, 0.5, Number.NaN, Infinity, -Infinity, 2 ** 53, Number.MAX_VALUE],
  ...['', '7', '007', '1e3', ' 7', '7; DROP', '7\r\nX-More: 1', 7n, true, [7], {}, null, undefined],
];

/** Tokens are numbers: how they are compared, which are none, and which are too great. */
export const tokenCases: readonly FenceCase[] = [
  {
    name: 'tokens are compared as numbers, to the last digit',
    needs: [],
    async run(context) {
      const nowUs = await context.subject.nowUs();
      let before: Grant | undefined;
      for (const fencingToken of [...ASCENDING, nowUs, nowUs + 1, nowUs + 2]) {
        const grant = await context.grant({ fencingToken });
        await context.append(grant, String(fencingToken));
        if (before !== undefined) await context.stale(context.append(before, 'too late'), grant);
        const { leaseId } = grant;
        expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
        before = grant;
      }
      expect(await context.entries()).toEqual([...ASCENDING, nowUs, nowUs + 1, nowUs + 2].map(String));
    },
  },
  {
    name: 'what can be no token is refused, and changes nothing',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      await context.append(grant, 'before');
      for (const fencingToken of NO_TOKENS) {
        const wrong = { ...grant, fencingToken } as Grant;
        const calls = [
          () => context.fence.activate(wrong),
          () => context.append(wrong, 'wrong'),
          () => context.fence.seal(context.resource, fencingToken as number),
        ];
        for (const call of calls) expect(await context.refused('CONFIG', call())).toBeInstanceOf(ConfigError);
      }
      await context.append(grant, 'after');
      expect(await context.entries()).toEqual(['before', 'after']);
    },
  },
  {
    name: 'a token more than a day ahead is out of range, and shuts out nobody',
    needs: [],
    async run(context) {
      const nowUs = await context.subject.nowUs();
      const grant = await context.grant();
      await context.fence.activate(grant);
      for (const fencingToken of [nowUs + DAY_US + 10 * MINUTE_US, nowUs + 2 * DAY_US, Number.MAX_SAFE_INTEGER]) {
        const mistyped = context.lease({ ...grant, fencingToken });
        await context.refused('TOKEN_OUT_OF_RANGE', context.fence.activate(mistyped));
        await context.refused('TOKEN_OUT_OF_RANGE', context.append(mistyped, 'mistyped'));
        await context.refused('TOKEN_OUT_OF_RANGE', context.fence.seal(context.resource, fencingToken));
        // It is not lost: nobody else was admitted.
        expect(mistyped.refusals).toEqual([]);
      }
      expect(await context.fence.highest(context.resource)).toMatchObject({ fencingToken: grant.fencingToken });
      const ahead = { ...grant, fencingToken: nowUs + DAY_US - 10 * MINUTE_US };
      await context.append(ahead, 'ahead');
      expect(await context.entries()).toEqual(['ahead']);
    },
  },
  {
    name: 'on a resource that nobody has touched, a token too far ahead is out of range as well',
    needs: [],
    async run(context) {
      const grant = await context.grant({ fencingToken: (await context.subject.nowUs()) + 2 * DAY_US });
      await context.refused('TOKEN_OUT_OF_RANGE', context.append(grant, 'mistyped'));
      await context.refused('TOKEN_OUT_OF_RANGE', context.fence.activate(grant));
      await context.refused('TOKEN_OUT_OF_RANGE', context.fence.seal(context.resource, grant.fencingToken));
      expect(await context.fence.highest(context.resource)).toBeNull();
      await context.append(await context.grant(), 'in range');
      expect(await context.entries()).toEqual(['in range']);
    },
  },
  {
    name: 'a refused grant learns the highest, and the next one, made above it, is admitted: one refusal is enough',
    needs: [],
    async run(context) {
      const nowUs = await context.subject.nowUs();
      // The resource remembers more than a store that was emptied, and whose clock is an hour behind.
      const remembered = await context.grant({ fencingToken: nowUs + HOUR_US });
      const sealed = nowUs + 2 * HOUR_US;
      const ways = [() => context.append(remembered, 'remembered'), () => context.fence.seal(context.resource, sealed)];
      for (const [index, raise] of ways.entries()) {
        await raise();
        let refusals = 0;
        for (let floor = 0; ;) {
          const grant = { resource: context.resource, fencingToken: Math.max(nowUs, floor + 1), leaseId: newLeaseId() };
          try {
            await context.fence.activate(grant);
            await context.append(grant, `loop ${index}`);
            break;
          } catch (error) {
            const stale = findStale(error);
            if (stale === undefined) throw error;
            floor = stale.highest.fencingToken;
            expect(++refusals).toBe(1);
          }
        }
        expect(refusals).toBe(1);
      }
      expect(await context.entries()).toEqual(['remembered', 'loop 0', 'loop 1']);
    },
  },
];
