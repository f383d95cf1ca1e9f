import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { describe, expect, onTestFinished, test, vi } from 'vitest';

import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { clients, failing, storeOn } from './clients.ts';
import { bulk, fakeRedis } from './fake-redis.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

describe.each(clients)('by %s', (_, on) => {
  describe('a connection that breaks', () => {
    test('calls in flight end at once, calls meanwhile fail fast, and onReconnect tells the end of it', async () => {
      await using server = await startRedis();
      await using proxy = await TcpProxy.start({ port: server.port });
      const store = storeOn(on(proxy.redisUrl));
      await store.acquire(acquireOf('before'), call); // the script is known from now on
      const acquisition = acquireOf('a');

      const lost = proxy.loseNextReply();
      const [{ error }] = await Promise.all([failing(store.acquire(acquisition, call)), lost]);
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });

      proxy.refuse();
      proxy.cut();
      let reconnects = 0;
      const again = new Promise<void>((resolve) => {
        store.onReconnect(() => {
          reconnects++;
          resolve();
        });
      });
      // Until the socket's end has been noticed a call is lost with it; from then on it is not sent at all.
      let refused = await failing(store.read('a', call));
      while (refused.error.mayHaveRun === true) refused = await failing(store.read('a', call));
      expect(refused.error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
      const offline = await failing(store.acquire(acquireOf('b'), call));
      expect(offline.error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
      expect(offline.ms).toBeLessThan(200);

      proxy.pass();
      await again;
      expect(reconnects).toBe(1);
      // Nothing was sent again by anybody: b is free, and a was acquired once.
      expect(await store.read('b', call)).toBeNull();
      expect(await store.acquire(acquisition, call)).toMatchObject({ kind: 'granted', again: true });
    });

    test('a listener of onReconnect that was taken back is not called', async () => {
      await using server = await startRedis();
      await using proxy = await TcpProxy.start({ port: server.port });
      const store = storeOn(on(proxy.redisUrl));
      await store.read('a', call);
      const heard: string[] = [];
      const end = store.onReconnect(() => heard.push('first'));
      const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
      end();
      proxy.cut();
      await again;
      expect(heard).toEqual([]);
    });

    test('a silent server: each call ends by its own deadline, and a late reply changes nothing', async () => {
      await using server = await startRedis();
      const store = storeOn(on(server.url));
      await store.acquire(acquireOf('before'), call); // the script is known from now on
      await server.pause();
      const acquisition = acquireOf('a');
      const [short, long] = await Promise.all([
        failing(store.acquire(acquisition, { timeoutMs: 50 })),
        failing(store.read('a', { timeoutMs: 400 })),
      ]);
      for (const { error } of [short, long])
        expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
      expect(short.ms).toBeGreaterThanOrEqual(45);
      expect(short.ms).toBeLessThan(350);
      expect(long.ms).toBeGreaterThanOrEqual(395);
      server.resume();
      // The reply to the first call arrives on the same connection and is not taken for the reply to the next.
      expect(await store.read('other', call)).toBeNull();
      expect(await store.acquire(acquisition, call)).toMatchObject({ kind: 'granted', again: true });
    });

    test('a connection that stays silent for connectTimeout is given up', async () => {
      await using server = await startRedis();
      await using proxy = await TcpProxy.start({ port: server.port });
      const store = storeOn(on(proxy.redisUrl), { connectTimeout: 300 });
      await store.read('a', call);
      const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
      proxy.swallow('up', 'down');
      let seen = await failing(store.read('a', { timeoutMs: 100 }));
      while (seen.error.mayHaveRun === true) seen = await failing(store.read('a', { timeoutMs: 100 }));
      proxy.pass();
      await again;
      expect(await store.read('a', call)).toBeNull();
    });

    test('a reply that is there when a blocked loop wakes up wins over its deadline', async () => {
      await using server = await startRedis();
      const store = storeOn(on(server.url));
      await store.read('a', call);
      const reading = store.read('a', { timeoutMs: 50 });
      await new Promise(setImmediate);
      const until = performance.now() + 300;
      while (performance.now() < until);
      expect(await reading).toBeNull();
    });

    test('a primary that became a replica is connected to anew', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      const store = storeOn(on(server.url));
      await store.read('a', call);
      await raw.replicaof('127.0.0.1', '1');
      const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
      const { error } = await failing(store.acquire(acquireOf('a'), call));
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
      expect((error.cause as Error).message).toContain('READONLY');
      await raw.replicaof('NO', 'ONE');
      await again;
      expect(await store.acquire(acquireOf('a'), call)).toMatchObject({ kind: 'granted' });
    });

    test('an answer to something else is not believed, and neither is its connection', async () => {
      let answers = 0;
      await using server = await fakeRedis(([name]) => {
        if (name === 'hello') return '-ERR unknown command HELLO\r\n';
        if (name === 'info') return bulk('redis_version:7.0.15\r\n');
        if (name === 'eval') return ':1\r\n';
        if (name === 'evalsha' && answers++ === 0) return bulk(`${'0'.repeat(32)} granted 0 1 1000 0`);
        return '*1\r\n$4\r\nnone\r\n';
      });
      const store = storeOn(on(server.url));
      const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
      const { error } = await failing(store.acquire(acquireOf('a'), call));
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
      await again;
      expect(await store.read('a', call)).toBeNull();
    });
  });

  describe('sending', () => {
    test('scripts that the server has forgotten are sent again, and `sent` is called for each time', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      const store = storeOn(on(server.url));
      let sent = 0;
      const counting = { timeoutMs: 10_000, sent: () => void sent++ };
      const acquisition = acquireOf('a');
      expect(await store.acquire(acquisition, counting)).toMatchObject({ kind: 'granted', again: false });
      expect(sent).toBe(2);
      expect(await store.acquire(acquisition, counting)).toMatchObject({ kind: 'granted', again: true });
      expect(sent).toBe(3);
      await raw.script('FLUSH', 'SYNC');
      expect(await store.acquire(acquisition, counting)).toMatchObject({ kind: 'granted', again: true });
      expect(sent).toBe(5);
      expect(await store.release(releaseOf(acquisition), counting)).toEqual({ kind: 'released' });
    });

    test('`sent` is called for nothing that is not sent', async () => {
      await using server = await startRedis();
      const store = storeOn(on(server.url), { connectTimeout: 200 });
      await server.kill();
      let sent = 0;
      await failing(store.read('a', { timeoutMs: 1000, sent: () => void sent++ }));
      expect(sent).toBe(0);
    });

    test('many at once', async () => {
      await using server = await startRedis();
      const store = storeOn(on(server.url));
      const acquisitions = Array.from({ length: 500 }, (_, index) => acquireOf(`r${index}`));
      await Promise.all(acquisitions.map((acquisition) => store.acquire(acquisition, call)));
      const verdicts = await store.extend(acquisitions, call);
      expect(verdicts.every(({ verdict }) => verdict === 'extended')).toBe(true);
    });
  });

  describe('whose connection it is', () => {
    test('close settles what is under way, ends the connection, and can be called again', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      const store = storeOn(on(server.url));
      await store.read('a', call);
      await server.pause();
      const reading = failing(store.read('a', call));
      await new Promise(setImmediate);
      const closing = store.close();
      expect((await reading).error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
      server.resume();
      await closing;
      await store.close();
      expect((await failing(store.read('a', call))).error).toMatchObject({
        code: 'STORE_UNAVAILABLE',
        mayHaveRun: false,
      });
      await vi.waitFor(async () =>
        expect(
          String(await raw.client('LIST'))
            .trim()
            .split('\n'),
        ).toHaveLength(1),
      );
    });

    test('close before the first connection', async () => {
      const store = storeOn('redis://127.0.0.1:1');
      const reading = failing(store.read('a', call));
      await store.close();
      expect((await reading).error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
    });
  });
});

describe("a client handed in is duplicated: its options, its database, its life are the user's", () => {
  test('of ioredis', async () => {
    await using server = await startRedis();
    const client = new Redis({ port: server.port, db: 3, maxRetriesPerRequest: 7, lazyConnect: true });
    const store = storeOn(client);
    await store.acquire(acquireOf('a'), call);
    expect(client.status).toBe('wait');
    expect(client.options).toMatchObject({ maxRetriesPerRequest: 7, enableOfflineQueue: true });
    expect(await client.keys('*')).toEqual(['leasehold:{a}']);
    await store.close();
    expect(await client.ping()).toBe('PONG');
    client.disconnect();
  });

  test('of node-redis', async () => {
    await using server = await startRedis();
    const client = createClient({ socket: { port: server.port }, database: 3 });
    const store = storeOn(client);
    await store.acquire(acquireOf('a'), call);
    await store.subscribe('a', () => {});
    expect(client.isOpen).toBe(false);
    expect(client.options).not.toHaveProperty('disableOfflineQueue');
    expect(client.options.socket).toEqual({ port: server.port });
    await client.connect();
    expect(await client.keys('*')).toEqual(['leasehold:{a}']);
    await store.close();
    expect(await client.ping()).toBe('PONG');
    client.destroy();
  });
});

test.each([
  ['a URL', (url: string) => url],
  ['a client', (url: string) => new Redis(url, { lazyConnect: true })],
])('of %s, ioredis is given its commands ready made, without the detours of a call', async (_, on) => {
  await using server = await startRedis();
  const called = vi.spyOn(Redis.prototype, 'call');
  onTestFinished(() => called.mockRestore());
  const store = storeOn(on(server.url));
  expect(await store.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'granted' });
  expect(called).not.toHaveBeenCalled();
});
