import { expect } from 'vitest';

import type { StoreMessage } from '../../store/store.ts';
import { newLeaseId } from '../unique.ts';
import type { StoreCase } from './context.ts';
import { queueUp } from './waiting.ts';

function kinds(heard: readonly StoreMessage[]): string[] {
  return heard.map(({ kind }) => kind);
}

export const messageCases: readonly StoreCase[] = [
  {
    name: 'release tells the head to go and the second to look',
    needs: ['messages'],
    async run(context) {
      const { resource } = context;
      const ears = [await context.listen(), await context.listen(), await context.listen()];
      const wishes = ears.map(({ channel }) => ({ channel }));
      const [holder, first, second] = await queueUp(context, { ttlMs: 2_000 }, wishes);
      await context.release(holder);
      await context.until('the messages', () => ears[0]?.heard[0] && ears[1]?.heard[0]);
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
      await context.pass(50);
      expect(ears.map(({ heard }) => heard)).toEqual([
        [{ kind: 'go', resource, leaseId: first?.leaseId, afterMs: 0 }],
        [{ kind: 'look', resource, leaseId: second?.leaseId, afterMs: 200 }],
        [],
      ]);
    },
  },
  {
    name: 'two waiters of one process are told apart',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const [holder, first, second] = await queueUp(context, {}, [{ channel }, { channel }]);
      await context.release(holder);
      await context.until('the messages', () => heard[1]);
      expect(heard.map(({ kind, leaseId }) => `${kind} ${leaseId}`).toSorted()).toEqual([
        `go ${first?.leaseId}`,
        `look ${second?.leaseId}`,
      ]);
    },
  },
  {
    name: 'a turn opened after an expiry is told to its waiter',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const [, first] = await queueUp(context, { ttlMs: 300 }, [{ channel }]);
      await context.expired();
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      const message = await context.until('the message', () => heard[0]);
      expect(message).toMatchObject({ kind: 'go', leaseId: first?.leaseId });
    },
  },
  {
    name: 'a waiter that is cancelled in its turn passes the word on',
    needs: ['messages'],
    async run(context) {
      const ear = await context.listen();
      const parked = await context.listen();
      const [holder, first, second] = await queueUp(context, {}, [{}, { channel: ear.channel }]);
      await context.acquire({ mode: 'park', channel: parked.channel });
      await context.release(holder);
      await context.cancel(first?.leaseId ?? '');
      await context.until('the message', () => (kinds(ear.heard).includes('go') ? true : undefined));
      expect(parked.heard).toEqual([]);
      await context.cancel(second?.leaseId ?? '');
      const message = await context.until('the message', () => parked.heard[0]);
      expect(message).toMatchObject({ kind: 'free', resource: context.resource, leaseId: '' });
    },
  },
  {
    name: 'a parked process is told once, and only when nobody waits',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const [holder, first] = await queueUp(context, {}, [{}]);
      for (let time = 0; time < 2; time++) {
        expect(await context.acquire({ mode: 'park', channel })).toMatchObject({ kind: 'busy' });
      }
      await context.release(holder);
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
      await context.pass(50);
      expect(heard).toEqual([]);
      await context.release(first?.leaseId ?? '');
      await context.until('the message', () => heard[0]);
      await context.release((await context.grant()).leaseId);
      await context.pass(50);
      expect(kinds(heard)).toEqual(['free']);
    },
  },
  {
    name: 'of two parked processes one is told each time, the one that has been there for longer first',
    needs: ['messages'],
    async run(context) {
      const [first, second] = [await context.listen(), await context.listen()];
      const { leaseId } = await context.grant();
      for (const { channel } of [first, second]) {
        await context.acquire({ mode: 'park', channel });
        await context.pass(5);
      }
      await context.release(leaseId);
      await context.until('the message', () => first.heard[0]);
      await context.pass(50);
      expect([kinds(first.heard), kinds(second.heard)]).toEqual([['free'], []]);
      await context.release((await context.grant()).leaseId);
      await context.until('the message', () => second.heard[0]);
      expect([kinds(first.heard), kinds(second.heard)]).toEqual([['free'], ['free']]);
    },
  },
  {
    name: 'the owner is told of its revocation',
    needs: ['messages'],
    async run(context) {
      const { resource } = context;
      const { channel, heard } = await context.listen();
      const waiter = await context.listen();
      const { leaseId } = await context.grant({ channel });
      await context.acquire({ mode: 'wait', channel: waiter.channel });
      await context.revoke(newLeaseId());
      await context.revoke(leaseId);
      const message = await context.until('the message', () => heard[0]);
      expect(message).toEqual({ kind: 'revoked', resource, leaseId, afterMs: 0 });
      expect(waiter.heard).toEqual([]);
    },
  },
  {
    name: 'who adopts is told of its revocation, who handed over is not',
    needs: ['messages'],
    async run(context) {
      const [giver, taker] = [await context.listen(), await context.listen()];
      const old = await context.grant({ channel: giver.channel });
      const leaseId = newLeaseId();
      await context.adopt(old.leaseId, { leaseId, channel: taker.channel });
      await context.revoke(leaseId);
      const message = await context.until('the message', () => taker.heard[0]);
      expect(message).toMatchObject({ kind: 'revoked', leaseId });
      expect(giver.heard).toEqual([]);
    },
  },
  {
    name: 'a listener that has ended hears nothing, another of the same channel does',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const unheard: StoreMessage[] = [];
      const end = await context.store.subscribe(channel, (message) => unheard.push(message));
      await end();
      const { leaseId } = await context.grant({ channel });
      await context.revoke(leaseId);
      await context.until('the message', () => heard[0]);
      await context.pass(50);
      expect(unheard).toEqual([]);
    },
  },
  {
    name: 'a process that does not listen is told nothing, and served all the same',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, { channel: '' }, [{ channel: '' }, { channel: '' }]);
      expect(await context.acquire({ mode: 'park', channel: '' })).toMatchObject({ kind: 'busy' });
      await context.revoke(holder);
      expect(await context.release(holder)).toEqual({ kind: 'released' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a restart is seen by who was connected before it, and its channels go on',
    needs: ['messages', 'restart'],
    async run(context) {
      await context.store.connect();
      expect(context.store.server).toMatchObject({ ageMs: expect.any(Number), restarted: false });
      expect(context.store.server?.ageMs).toBeGreaterThanOrEqual(0);
      const { channel, heard } = await context.listen();
      let reconnected = 0;
      context.store.onReconnect(() => reconnected++);
      await context.hook('restart')({ persistent: false });
      await context.until('the reconnection', async () => {
        await context.read().catch(() => undefined);
        return reconnected > 0 && context.store.server?.restarted === true ? true : undefined;
      });
      expect(context.store.server?.ageMs).toBeLessThan(20_000);
      const { leaseId } = await context.grant({ channel });
      const message = await context.until('a message', async () => {
        await context.revoke(leaseId);
        return heard[0];
      });
      expect(message).toMatchObject({ kind: 'revoked', leaseId });
    },
  },
];
