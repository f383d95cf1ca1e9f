import { describe, expect, test, vi } from 'vitest';

import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { clients, failing, storeOn } from './clients.ts';
import { bulk, fakeRedis } from './fake-redis.ts';
import { acquireOf, call } from './requests.ts';

describe.each(clients)('by %s', (_, on) => {
  describe('the first connection', () => {
    test('is made on first use, and calls wait for it', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      const store = storeOn(on(server.url));
      const connections = async () =>
        String(await raw.client('LIST'))
          .trim()
          .split('\n').length;
      expect(await connections()).toBe(1);
      const replies = await Promise.all([
        store.read('a', call),
        store.read('b', call),
        store.acquire(acquireOf('c'), call),
      ]);
      expect(replies[2]).toMatchObject({ kind: 'granted', again: false });
      expect(await connections()).toBe(2);
    });

    test('waits for a server that is not there yet', async () => {
      await using first = await startRedis();
      const { port } = first;
      await first.kill();
      const store = storeOn(on(first.url));
      const reading = store.read('a', call);
      await first.restart();
      expect(first.port).toBe(port);
      expect(await reading).toBeNull();
    });

    test('to a server that is down ends within connectTimeout', async () => {
      await using server = await startRedis();
      await server.kill();
      const store = storeOn(on(server.url), { connectTimeout: 300 });
      for (let time = 0; time < 2; time++) {
        const { error, ms } = await failing(store.read('a', call));
        expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
        expect((error.cause as Error).message).toContain('ECONNREFUSED');
        expect(ms).toBeGreaterThan(250);
        expect(ms).toBeLessThan(2000);
      }
    });

    test('to a server that accepts and says nothing ends within connectTimeout', async () => {
      await using server = await fakeRedis(() => undefined);
      const store = storeOn(on(server.url), { connectTimeout: 300 });
      const { error, ms } = await failing(store.acquire(acquireOf('a'), call));
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
      expect(ms).toBeLessThan(2000);
    });

    test('to a server that is stopped is made when it goes on', async () => {
      await using server = await startRedis();
      await server.pause();
      const store = storeOn(on(server.url), { connectTimeout: 200 });
      await failing(store.read('a', call));
      const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
      server.resume();
      await again;
      expect(await store.read('a', call)).toBeNull();
    });

    test('waits while the server loads its data', async () => {
      let loading = 3;
      await using server = await fakeRedis(([name]) => {
        if (name === 'hello')
          return '-ERR unknown command `hello`, with args beginning with: \r\n'.replace('hello', 'HELLO');
        if (name === 'info') return bulk('redis_version:7.0.15\r\n');
        if (name === 'eval' && loading-- > 0) return '-LOADING Redis is loading the dataset in memory\r\n';
        if (name === 'evalsha') return '*1\r\n$4\r\nnone\r\n';
        return ':1\r\n';
      });
      expect(await storeOn(on(server.url)).read('a', call)).toBeNull();
      expect(loading).toBeLessThan(0);
    });
  });

  describe('servers that do not let us in', () => {
    test('a missing and a wrong password, and what happens when it is right again', async () => {
      await using server = await startRedis({ args: ['--requirepass', 'right'] });
      const wrong = server.url.replace('redis://', 'redis://:s3cret@');
      for (const url of [server.url, wrong]) {
        const { error, ms } = await failing(storeOn(on(url)).read('a', call));
        expect(error).toMatchObject({ code: 'STORE_AUTH' });
        expect(`${error.stack} ${JSON.stringify(error.cause)}`).not.toContain('s3cret');
        expect(ms).toBeLessThan(4000);
      }
      const store = storeOn(on(wrong));
      await failing(store.read('a', call));
      await using raw = await connectRedis(server.url.replace('redis://', 'redis://:right@'));
      await raw.config('SET', 'requirepass', 's3cret');
      expect(await store.read('a', call)).toBeNull();
    });

    test('a user without the rights to run scripts', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      await raw.acl('SETUSER', 'poor', 'on', '>pw', '~*', '&*', '+@connection');
      const { error } = await failing(storeOn(on(server.url.replace('redis://', 'redis://poor:pw@'))).read('a', call));
      expect(error).toMatchObject({ code: 'STORE_AUTH' });
      expect(error.message).toContain('NOPERM');
    });

    test('a user without the rights to our keys', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      await raw.acl('SETUSER', 'other', 'on', '>pw', '~other:*', '&*', '+@all');
      const store = storeOn(on(server.url.replace('redis://', 'redis://other:pw@')));
      for (let time = 0; time < 2; time++) {
        expect((await failing(store.acquire(acquireOf('a'), call))).error).toMatchObject({ code: 'STORE_AUTH' });
      }
      await raw.acl('SETUSER', 'other', '~leasehold:*');
      expect(await store.acquire(acquireOf('a'), call)).toMatchObject({ kind: 'granted' });
    });

    test('a user without INFO is let in, and nothing is printed', async () => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      await raw.acl('SETUSER', 'plain', 'on', '>pw', '~leasehold:*', '&*', '+@all', '-info');
      const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
      const store = storeOn(on(server.url.replace('redis://', 'redis://plain:pw@')));
      expect(await store.acquire(acquireOf('a'), call)).toMatchObject({ kind: 'granted' });
      expect(warn).not.toHaveBeenCalled();
      warn.mockRestore();
    });

    test('a database that does not exist is not replaced by another one', async () => {
      await using server = await startRedis();
      const { error } = await failing(storeOn(on(`${server.url}/99`)).read('a', call));
      expect(error.code).toMatch(/STORE_UNAVAILABLE|STORE_AUTH/);
      expect(error.message).toContain('DB index is out of range');
    });

    test.each([
      ['by its version', 'redis_version:6.2.14\r\n', ':1\r\n'],
      [
        'by its scripts, where INFO is not permitted',
        undefined,
        "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'\r\n",
      ],
    ])('a server that is too old is known %s', async (_, info, flagged) => {
      await using server = await fakeRedis(([name]) => {
        if (name === 'hello') return '-ERR unknown command HELLO\r\n';
        if (name === 'info') return info === undefined ? '-NOPERM this user has no permissions\r\n' : bulk(info);
        return name === 'eval' ? flagged : '+OK\r\n';
      });
      const store = storeOn(on(server.url));
      for (let time = 0; time < 2; time++) {
        const { error, ms } = await failing(store.read('a', call));
        expect(error).toMatchObject({ code: 'STORE_VERSION' });
        expect(ms).toBeLessThan(4000);
      }
    });
  });
});
