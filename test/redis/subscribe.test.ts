import type { redisStore } from '@leasehold/core/redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { clients, storeOn } from './clients.ts';
import { bulk, fakeRedis } from './fake-redis.ts';
import { acquireOf, call } from './requests.ts';

let server: RedisServer;
let raw: Awaited<ReturnType<typeof connectRedis>>;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  raw = await connectRedis(server.url);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

type Message = Parameters<Parameters<ReturnType<typeof redisStore>['subscribe']>[1]>[0];

/** A listener whose messages can be awaited one by one. */
function ear() {
  const heard: Message[] = [];
  const waiting: ((message: Message) => void)[] = [];
  return {
    hear(message: Message) {
      const next = waiting.shift();
      if (next === undefined) heard.push(message);
      else next(message);
    },
    heard,
    next: async () => heard.shift() ?? (await new Promise<Message>((resolve) => void waiting.push(resolve))),
  };
}

const connections = async (): Promise<number> =>
  String(await raw.client('LIST'))
    .trim()
    .split('\n').length;

const subscribers = async (channel: string): Promise<number> =>
  Number(((await raw.call('PUBSUB', 'NUMSUB', channel)) as unknown[])[1]);

describe.each(clients)('by %s', (_, on) => {
  describe('a subscription', () => {
    test('of many channels and listeners is one connection beside that of the commands', async () => {
      const prefix = uniqueName('ears');
      const store = storeOn(on(server.url), { prefix });
      while ((await connections()) > 1) await new Promise(setImmediate);
      const ears = [ear(), ear(), ear()] as const;
      const ends = await Promise.all([
        store.subscribe(`${prefix}:a`, ears[0].hear),
        store.subscribe(`${prefix}:a`, ears[1].hear),
        store.subscribe(`${prefix}:b`, ears[2].hear),
        store.subscribe(`${prefix}:b`, () => {
          throw new Error('a listener of its own kind');
        }),
      ]);
      expect(await connections()).toBe(3);
      for (const noise of ['', 'hello', `go 0 x other:{r}`, `go 0 x ${prefix}:{r}:q`])
        await raw.publish(`${prefix}:a`, noise);
      await raw.publish(`${prefix}:a`, `look 50 x ${prefix}:{r%20s}`);
      await raw.publish(`${prefix}:b`, `free 0 - ${prefix}:{r}`);
      const look = { kind: 'look', resource: 'r s', leaseId: 'x', afterMs: 50 };
      expect([await ears[0].next(), await ears[1].next()]).toEqual([look, look]);
      expect(await ears[2].next()).toEqual({ kind: 'free', resource: 'r', leaseId: '', afterMs: 0 });
      expect(ears.map(({ heard }) => heard.length)).toEqual([0, 0, 0]);

      await ends[0]();
      await raw.publish(`${prefix}:a`, `go 0 y ${prefix}:{r}`);
      expect(await ears[1].next()).toMatchObject({ kind: 'go', leaseId: 'y' });
      expect(ears[0].heard).toEqual([]);
      await ends[1]();
      await ends[1]();
      while ((await subscribers(`${prefix}:a`)) > 0) await new Promise(setImmediate);
      expect(await subscribers(`${prefix}:b`)).toBe(1);
      const again = ear();
      await store.subscribe(`${prefix}:a`, again.hear);
      await raw.publish(`${prefix}:a`, `go 0 z ${prefix}:{r}`);
      expect(await again.next()).toMatchObject({ leaseId: 'z' });
      await store.close();
      while ((await subscribers(`${prefix}:a`)) + (await subscribers(`${prefix}:b`)) > 0)
        await new Promise(setImmediate);
    });

    test('hears the revocation of its lease', async () => {
      const store = storeOn(on(server.url), { prefix: uniqueName('revoked') });
      const its = ear();
      const holder = acquireOf('r', { channel: 'revocations' });
      await store.subscribe('revocations', its.hear);
      await store.acquire(holder, call);
      const { leaseId } = holder;
      const revoke = { resource: 'r', leaseId, operator: 'ann', reason: 'it hangs: twice' };
      for (let time = 0; time < 2; time++) {
        expect(await store.revoke(revoke, call)).toMatchObject({ kind: 'revoked' });
        expect(await its.next()).toEqual({ kind: 'revoked', resource: 'r', leaseId, afterMs: 0 });
      }
      expect(await store.history('r', 10, call)).toMatchObject([{ event: 'revoked', detail: 'ann: it hangs: twice' }]);
      expect(await store.extend([holder], call)).toMatchObject([{ verdict: 'revoked' }]);
    });
  });

  describe('a subscription whose connection ends', () => {
    test('is made again, with all channels', async () => {
      const store = storeOn(on(server.url));
      const its = ear();
      for (const channel of ['again:a', 'again:b']) await store.subscribe(channel, its.hear);
      await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      for (const channel of ['again:a', 'again:b']) {
        while ((await raw.publish(channel, `go 0 ${channel} leasehold:{r}`)) === 0) await new Promise(setImmediate);
        expect(await its.next()).toMatchObject({ leaseId: channel });
      }
    });

    test('survives a server that was away, and one that is not there yet', async () => {
      await using away = await startRedis();
      await away.kill();
      const store = storeOn(on(away.url), { connectTimeout: 200 });
      const its = ear();
      const subscribing = store.subscribe('a', its.hear);
      await expect(store.connect()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
      for (let time = 0; time < 2; time++) {
        await away.restart();
        await subscribing;
        await using other = await connectRedis(away.url);
        while ((await other.publish('a', `go 0 ${time} leasehold:{r}`)) === 0) await new Promise(setImmediate);
        expect(await its.next()).toMatchObject({ leaseId: String(time) });
        await away.kill();
      }
    });

    test('is asked whether it is still there when the other one was lost, and is made again if it says nothing', async () => {
      let [pings, subscriptions, answers] = [0, 0, 0];
      let subscribedAgain!: () => void;
      const again = new Promise<void>((resolve) => (subscribedAgain = resolve));
      await using fake = await fakeRedis(([name, channel = '']) => {
        if (name === 'hello') return '-ERR unknown command HELLO\r\n';
        if (name === 'info') return bulk('redis_version:7.0.15\r\n');
        if (name === 'ping') return ++pings === 2 ? undefined : '+PONG\r\n';
        if (name === 'evalsha') return answers++ === 0 ? bulk('no answer to this') : '*1\r\n$4\r\nnone\r\n';
        if (name !== 'subscribe') return ':1\r\n';
        if (++subscriptions === 2) subscribedAgain();
        return `*3\r\n${bulk('subscribe')}${bulk(channel)}:1\r\n`;
      });
      const store = storeOn(on(fake.url), { connectTimeout: 200 });
      await store.subscribe('a', () => {});
      const began = performance.now();
      await expect(store.read('r', call)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
      await again;
      // Without the other's loss it would be asked after a quarter of a minute.
      expect(performance.now() - began).toBeLessThan(10_000);
      expect([pings, subscriptions]).toEqual([3, 2]);
    });
  });

  describe('a subscription that may not be', () => {
    test('is refused once, and the other channels go on', async () => {
      await raw.acl('SETUSER', 'deaf', 'on', '>pw', '~*', 'resetchannels', '&ours:*', '+@all');
      const store = storeOn(on(server.url.replace('redis://', 'redis://deaf:pw@')));
      const its = ear();
      await store.subscribe('ours:a', its.hear);
      for (let time = 0; time < 2; time++) {
        await expect(store.subscribe('theirs', its.hear)).rejects.toMatchObject({ code: 'STORE_AUTH' });
      }
      await raw.publish('ours:a', 'go 0 x leasehold:{r}');
      expect(await its.next()).toMatchObject({ leaseId: 'x' });
      await raw.acl('SETUSER', 'deaf', '&theirs');
      await store.subscribe('theirs', its.hear);
    });

    test('is refused with a wrong password, and by a store that is closed', async () => {
      await raw.acl('SETUSER', 'locked', 'on', '>pw', '~*', '&*', '+@all');
      const wrong = storeOn(on(server.url.replace('redis://', 'redis://locked:no@')));
      await expect(wrong.subscribe('a', () => {})).rejects.toMatchObject({ code: 'STORE_AUTH' });
      const store = storeOn(on(server.url));
      const subscribing = store.subscribe('a', () => {});
      await Promise.all([store.close(), expect(subscribing).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })]);
      await expect(store.subscribe('a', () => {})).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    });
  });
});

test.each([2, 3])('ioredis over RESP%i', async (protocol) => {
  const store = storeOn({ host: server.host, port: server.port, protocol }, { prefix: 'resp' });
  const its = ear();
  await store.subscribe('resp:channel', its.hear);
  await raw.publish('resp:channel', 'go 0 x resp:{r}');
  expect(await its.next()).toMatchObject({ kind: 'go', resource: 'r' });
});
