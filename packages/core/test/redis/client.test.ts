import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster, createSentinel } from 'redis';
import { describe, expect, test } from 'vitest';

import { ConfigError, StoreAuthError, StoreUnavailableError } from '../../src/errors.ts';
import { checkSource, describeSource } from '../../src/redis/client.ts';
import { failureOf, isAuthFailure, withoutCommand } from '../../src/redis/failure.ts';
import { redisStore } from '../../src/redis/index.ts';
import { Transaction } from '../../src/redis/transaction.ts';

const lazy = { lazyConnect: true } as const;

describe('what a store can be made of', () => {
  test('a client that cannot be used is not taken for options', () => {
    const others = [
      { connect() {}, sendCommand() {}, duplicate() {} },
      createCluster({ rootNodes: [] }),
      createSentinel({ name: 'primary', sentinelRootNodes: [{ host: 'localhost', port: 1 }] }),
    ];
    for (const other of others) expect(() => checkSource(other)).toThrow(/connection: is a client that cannot be used/);
    expect(() => checkSource(createClient())).not.toThrow();
  });

  test('a keyPrefix is refused, wherever it comes from', () => {
    for (const source of [
      'redis://localhost?keyPrefix=app:',
      { host: 'localhost', keyPrefix: 'app:' },
      new Redis({ ...lazy, keyPrefix: 'app:' }),
      createClient({ keyPrefix: 'app:' }),
      new Cluster([{ port: 1 }], { ...lazy, keyPrefix: 'app:' }),
      new Cluster([{ port: 1 }], { ...lazy, redisOptions: { keyPrefix: 'app:' } }),
    ]) {
      expect(() => checkSource(source)).toThrow(/keyPrefix.*`prefix`/);
    }
  });

  test('what is no connection is refused at once', () => {
    for (const source of ['localhost:6379', 'http://localhost', '', 6379, null, undefined]) {
      expect(() => redisStore(source as string)).toThrow(ConfigError);
    }
    expect(() => redisStore('redis://localhost', { prefix: 'a{b}' })).toThrow(ConfigError);
    expect(() => redisStore('redis://localhost', { connectTimeout: 0 })).toThrow(ConfigError);
  });

  test('descriptions are without credentials', () => {
    const told = [
      'redis://user:s3cret@redis.example:7000/3?password=s3cret',
      { host: 'redis.example', port: 7000, db: 3, username: 'user', password: 's3cret' },
      new Redis({ ...lazy, host: 'redis.example', port: 7000, db: 3, password: 's3cret' }),
      createClient({ url: 'redis://user:s3cret@redis.example:7000/3' }),
    ].map(describeSource);
    expect(new Set(told)).toEqual(new Set(['redis redis.example:7000/3']));
    expect(describeSource(new Cluster(['redis://:s3cret@one:7000', { host: 'two', port: 7001 }], lazy))).toBe(
      'redis cluster one:7000,two:7001',
    );
    expect(describeSource({ sentinels: [{ host: 'a', port: 1 }], name: 'primary', password: 's3cret' })).toBe(
      'redis sentinel primary',
    );
    expect(describeSource({ path: '/run/redis.sock' })).toBe('redis /run/redis.sock');
  });
});

describe('what an error means', () => {
  const replied = (message: string): Error =>
    Object.assign(new Error(message), {
      name: 'ReplyError',
      command: { name: 'hello', args: ['3', 'AUTH', 'u', 's3cret'] },
    });

  test('refusals of the server certainly changed nothing', () => {
    for (const code of ['READONLY', 'LOADING', 'OOM', 'MISCONF', 'BUSY', 'CLUSTERDOWN', 'NOREPLICAS', 'MASTERDOWN']) {
      const error = failureOf('redis here', 'acquire', replied(`${code} for a reason`));
      expect(error).toBeInstanceOf(StoreUnavailableError);
      expect((error as StoreUnavailableError).mayHaveRun).toBe(false);
      expect((error.cause as Error).message).toBe(`${code} for a reason`);
    }
  });

  test('a lost connection and an error inside the script may have changed something', () => {
    for (const error of [
      new Error('Connection is closed.'),
      replied('ERR user_script:7: attempt to index a nil value'),
    ]) {
      expect((failureOf('redis here', 'acquire', error) as StoreUnavailableError).mayHaveRun).toBe(true);
    }
    const unsent = new Error("Stream isn't writeable and enableOfflineQueue options is false");
    expect((failureOf('redis here', 'acquire', unsent) as StoreUnavailableError).mayHaveRun).toBe(false);
  });

  test('missing rights are a matter of configuration', () => {
    for (const message of [
      'WRONGPASS invalid username-password pair or user is disabled.',
      'NOAUTH Authentication required.',
      "NOPERM User app has no permissions to run the 'evalsha' command",
      "ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:9.",
    ]) {
      expect(isAuthFailure(replied(message))).toBe(true);
      expect(failureOf('redis here', 'acquire', replied(message))).toBeInstanceOf(StoreAuthError);
    }
    expect(isAuthFailure(new Error('connect ECONNREFUSED 127.0.0.1:1'))).toBe(false);
  });

  test('the password that ioredis hangs on an error goes no further', () => {
    const error = replied('WRONGPASS no');
    expect(JSON.stringify(withoutCommand(error), Object.getOwnPropertyNames(error))).not.toContain('s3cret');
    expect(withoutCommand(error)).not.toHaveProperty('command');
  });
});

describe('the commands of a fenced write', () => {
  test('replies are there once the write has resolved, not before', async () => {
    const tx = new Transaction();
    const reply = await tx.run((its) => {
      const handle = its.call<number>('INCRBY', 'k', 2);
      expect(() => handle.value).toThrow(/INCRBY is not there yet/);
      return handle;
    });
    expect(tx.commands).toEqual([['INCRBY', 'k', '2']]);
    tx.settle([7]);
    expect(reply.value).toBe(7);
  });

  test('nothing is added after the body', async () => {
    const tx = new Transaction();
    await tx.run(() => {});
    expect(() => tx.call('GET', 'k')).toThrow(ConfigError);
    await expect(new Transaction().run((its) => its.call('SET', 'k', {} as string))).rejects.toThrow(ConfigError);
  });
});
