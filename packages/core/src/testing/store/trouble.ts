import { expect } from 'vitest';

import { LeaseholdError } from '../../errors.ts';
import { newLeaseId, unique } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

/** Names that a careless store takes for one another, or for a key of its own, or chokes on. */
export const HOSTILE_NAMES: readonly string[] = [
  ...[
    'a',
    'A',
    ' a',
    'a ',
    'a  b',
    'a b',
    '.',
    '..',
    '/',
    'a/b',
    'a//b',
    '\\',
    '"',
    "'",
    '`',
    '$',
    '*',
    '?',
    '[a]',
    'a*',
  ],
  ...['{', '}', '{}', '}{', '{a}', '{a', 'a}', '{{a}}', '{}a', 'a{b}c', '{b}', 'a}b'],
  ...['%', '%%', '%7B', '%7b', '%257B', '{a}%', '%7Ba%7D', 'a%20b', '%00', '%s', '%d%n'],
  ...[':', 'a:', 'a:q', 'a:w', 'a:p', 'a:log', 'a:tick', 'a:tick:job', '{a}:q', 'a}:q', ':q', 'a::q'],
  ...[
    'é',
    'e\u0301',
    'ｅ',
    'ı',
    'i',
    'I',
    'İ',
    'ß',
    'ss',
    'ﬁ',
    'fi',
    '🦊',
    '👩‍👩‍👧',
    '日本語',
    '\u{1f600}',
    '\u200b',
    'a\u200b',
    '\ufeff',
  ],
  ...['__proto__', 'constructor', 'toString', 'null', 'undefined', 'NaN', '0', '-0', '00', '1e3', 'true'],
  ...['x'.repeat(256), 'x'.repeat(255), '{'.repeat(256), '%'.repeat(256), `${'é'.repeat(128)}`, `${'🦊'.repeat(64)}`],
];

async function expectForeign(context: StoreContext, kind: 'type' | 'shape'): Promise<void> {
  const planted = await context.hook('foreign')(context.resource, kind);
  const leaseId = newLeaseId();
  await context.refused('FOREIGN_KEY', context.acquire({ leaseId }));
  await context.refused('FOREIGN_KEY', context.acquire({ leaseId, mode: 'wait' }));
  await context.refused('FOREIGN_KEY', context.acquire({ leaseId, mode: 'park', channel: unique('channel') }));
  await context.refused('FOREIGN_KEY', context.acquire({ tick: await context.tick('job') }));
  expect(await context.extend(leaseId)).toMatchObject({ verdict: 'foreign', key: expect.any(String) });
  await context.refused('FOREIGN_KEY', context.release(leaseId));
  await context.refused('FOREIGN_KEY', context.cancel(leaseId, { tombstoneMs: 60_000 }));
  await context.refused('FOREIGN_KEY', context.adopt(leaseId));
  await context.refused('FOREIGN_KEY', context.revoke(leaseId));
  await context.refused('FOREIGN_KEY', context.read());
  expect(await planted.intact()).toBe(true);
}

export const troubleCases: readonly StoreCase[] = [
  {
    name: 'something of another type under our key is refused by every operation, and left alone',
    needs: ['foreign'],
    run: (context) => expectForeign(context, 'type'),
  },
  {
    name: 'something of our type that is not ours is refused by every operation, and left alone',
    needs: ['foreign'],
    run: (context) => expectForeign(context, 'shape'),
  },
  {
    name: 'one foreign key in a batch of 500 harms no other lease',
    needs: ['foreign'],
    async run(context) {
      const items = await Promise.all(
        Array.from({ length: 500 }, async (_, index) => {
          const resource = unique('batch');
          const leaseId = index === 123 ? newLeaseId() : (await context.grant({ resource, ttlMs: 20_000 })).leaseId;
          return { resource, leaseId, ttlMs: 40_000 };
        }),
      );
      const planted = await context.hook('foreign')(items[123]?.resource ?? '', 'type');
      const verdicts = await context.store.extend(items, context.call);
      expect(verdicts).toHaveLength(500);
      expect(verdicts[123]).toMatchObject({ verdict: 'foreign' });
      const extended = verdicts.filter(
        (verdict) => verdict.verdict === 'extended' && verdict.remainingMs > 20_000 && verdict.remainingMs <= 40_000,
      );
      expect(extended).toHaveLength(499);
      expect(await planted.intact()).toBe(true);
    },
  },
  {
    name: 'a full store still extends, releases, cancels and reads; only acquire fails',
    needs: ['fill'],
    async run(context) {
      const [released, cancelled, waited] = ['released', 'cancelled', 'waited'].map((stem) =>
        context.at(unique(stem)),
      ) as [StoreContext, StoreContext, StoreContext];
      const [first, second, third] = [await released.grant(), await cancelled.grant(), await waited.grant()];
      const waiter = newLeaseId();
      await waited.acquire({ leaseId: waiter, mode: 'wait' });
      const tick = await context.tick('job');
      const ticked = await context.grant({ tick });
      const other = context.at(unique('handed over'));
      const handed = await other.grant();
      const empty = await context.hook('fill')();
      try {
        expect(await released.extend(first.leaseId)).toMatchObject({ verdict: 'extended' });
        expect(await released.release(first.leaseId)).toEqual({ kind: 'released' });
        expect(await cancelled.cancel(second.leaseId, { tombstoneMs: 60_000 })).toEqual({ kind: 'ended' });
        expect(await waited.release(third.leaseId)).toEqual({ kind: 'released' });
        expect(await context.release(ticked.leaseId, { job: tick.job })).toEqual({ kind: 'released' });
        const adopted = newLeaseId();
        expect(await other.adopt(handed.leaseId, { leaseId: adopted })).toMatchObject({ kind: 'granted' });
        expect(await other.revoke(adopted)).toMatchObject({ kind: 'revoked' });
        expect((await released.record()).state).toBe('free');
        const error = await context.refused('STORE_UNAVAILABLE', released.acquire());
        expect(error).toMatchObject({ mayHaveRun: false });
      } finally {
        await empty();
      }
      await released.grant();
      expect(await waited.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({ kind: 'granted' });
      expect(await context.acquire({ tick })).toMatchObject({ kind: 'tick', reason: 'already-ran' });
    },
  },
  {
    name: 'a server that forgot its scripts answers as before',
    needs: ['flushScripts'],
    async run(context) {
      const forget = context.hook('flushScripts');
      await forget();
      const { leaseId } = await context.grant();
      await forget();
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      await forget();
      expect((await context.record()).extensions).toBe(1);
      await forget();
      expect(await context.release(leaseId)).toEqual({ kind: 'released' });
      await forget();
      expect(await context.cancel(leaseId)).toEqual({ kind: 'nothing' });
    },
  },
  {
    name: 'a message that may not be sent turns no operation into an error',
    needs: ['withoutSideEffects'],
    async run(context) {
      const mute = context.over(await context.hook('withoutSideEffects')());
      const [first, second, third] = [newLeaseId(), newLeaseId(), newLeaseId()];
      const wish = { mode: 'wait', channel: unique('channel') } as const;
      await mute.grant({ leaseId: first, ttlMs: 300 });
      expect(await mute.acquire({ ...wish, leaseId: second })).toMatchObject({ kind: 'queued' });
      expect(await mute.acquire({ ...wish, leaseId: third })).toMatchObject({ kind: 'queued' });
      // After an expiry: opening a turn sends a message, and there is history to write.
      await mute.expired();
      expect(await mute.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await mute.acquire({ ...wish, leaseId: second })).toMatchObject({ kind: 'granted' });
      expect(await mute.release(second)).toEqual({ kind: 'released' });
      expect(await mute.acquire({ ...wish, leaseId: third })).toMatchObject({ kind: 'granted' });
      expect(await mute.cancel(third)).toEqual({ kind: 'ended' });
    },
  },
  {
    name: 'hostile and look-alike names are each a lease of their own',
    needs: [],
    async run(context) {
      expect(new Set(HOSTILE_NAMES).size).toBe(HOSTILE_NAMES.length);
      const contexts = HOSTILE_NAMES.map((resource) => context.at(resource));
      const leaseIds: string[] = [];
      const waiters: string[] = [];
      try {
        for (const each of contexts) {
          context.store.checkName('resource', each.resource);
          const { leaseId } = await each.grant({ owner: { line: `owner of ${each.resource}`, json: '{}' } });
          leaseIds.push(leaseId);
          // A queue beside it, which may lie where a look-alike has its lease.
          const waiter = newLeaseId();
          waiters.push(waiter);
          expect(await each.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({ kind: 'queued', position: 0 });
        }
        for (const [index, each] of contexts.entries()) {
          expect(await each.record()).toMatchObject({
            state: 'held',
            owner: `owner of ${each.resource}`,
            leaseId: leaseIds[index],
            waiting: 1,
          });
          expect(await each.acquire()).toMatchObject({ kind: 'busy', holder: { owner: `owner of ${each.resource}` } });
        }
        const verdicts = await context.store.extend(
          contexts.map(({ resource }, index) => ({ resource, leaseId: leaseIds[index] ?? '', ttlMs: 30_000 })),
          context.call,
        );
        expect(new Set(verdicts.map(({ verdict }) => verdict))).toEqual(new Set(['extended']));
      } finally {
        for (const [index, leaseId] of waiters.entries()) await contexts[index]?.cancel(leaseId);
        for (const [index, leaseId] of leaseIds.entries()) await contexts[index]?.release(leaseId);
      }
    },
  },
  {
    name: 'names that no store can hold are refused before anything is sent',
    needs: [],
    async run(context) {
      const bad = ['', 'x'.repeat(257), 'é'.repeat(129), 'a\nb', 'a\u0000b', '\u007f', '\ud800', 'a\u2028b'];
      for (const name of bad) {
        let error: unknown;
        try {
          context.store.checkName('resource', name);
        } catch (reason) {
          error = reason;
        }
        expect([name, LeaseholdError.is(error, 'CONFIG')]).toEqual([name, true]);
      }
    },
  },
];
