import { createHash } from 'node:crypto';
import type { Grant } from '@leasehold/core';
import { redisFence, type RedisTx } from '@leasehold/core/redis';
import { describeFence } from '@leasehold/core/testing';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { failing } from '../redis/clients.ts';
import { TcpProxy } from '../support/proxy.ts';
import { RedisCluster, until } from '../support/redis-cluster.ts';
import { uniqueName } from '../support/redis-client.ts';

let nodes: RedisCluster;
/** Before the first node. */
let proxy: TcpProxy;

beforeAll(async () => {
  nodes = await RedisCluster.start(3, 'file');
  proxy = await TcpProxy.start(serverOf(0), 'file');
});

afterAll(async () => {
  await proxy.close();
  await nodes.stop();
});

const serverOf = (node: number) => {
  const server = nodes.members[node]?.server;
  if (server === undefined) throw new Error(`there is no node ${node}`);
  return server;
};

/** A client that reaches the first node over the proxy. */
function connect(): Cluster {
  const { host, port } = serverOf(0);
  return new Cluster(nodes.addresses, { natMap: { [`${host}:${port}`]: { host: proxy.host, port: proxy.port } } });
}

/** A hash tag of the first node. */
async function tagOf(node: number): Promise<string> {
  for (let number = 0; ; number++) {
    const tag = `tag-${number}`;
    if ((await nodes.ownerOf(tag)) === nodes.members[node]) return tag;
  }
}

const short = (resource: string): string => createHash('sha1').update(resource).digest('hex');

let tag: string;

const { leftOut } = describeFence(
  'Redis Cluster',
  async () => {
    tag = await tagOf(0);
    const key = (resource: string): string => `fence:{${tag}}:${short(resource)}`;
    const log = (resource: string): string => `log:{${tag}}:${short(resource)}`;
    const client = connect();
    const others: Cluster[] = [];
    const append = (tx: RedisTx, resource: string, entry: string) => tx.call('RPUSH', log(resource), entry);
    return {
      fence: redisFence(client, { key }),
      nowUs: async () => {
        const [seconds, micros] = (await nodes.members[0]?.raw.time()) ?? [];
        return Number(seconds) * 1_000_000 + Number(micros);
      },
      append,
      entries: (resource) => client.lrange(log(resource), 0, -1),
      second: async () => {
        const other = connect();
        others.push(other);
        return redisFence(other, { key });
      },
      loseAnswer: async () => void proxy.loseNextReply('evalsha'),
      loseRequest: async () => void proxy.loseNextRequest('evalsha'),
      abandon: async (grant, entry) => {
        const dying = connect();
        const gone = proxy.loseNextRequest('evalsha');
        const write = redisFence(dying, { key, timeout: 100 })
          .write(grant, (tx) => append(tx, grant.resource, entry))
          .catch(() => {});
        await gone;
        dying.disconnect();
        await write;
      },
      close: async () => {
        for (const each of [client, ...others]) each.disconnect();
      },
    };
  },
  ['second', 'loseAnswer', 'loseRequest', 'abandon'],
);

test('the only case that a fence on a Cluster has no means for is the one that reads inside a write', () => {
  expect(leftOut).toEqual(['bodies that read and write lose no update of their siblings']);
});

describe('slots', () => {
  let cluster: Cluster;
  let grant: Grant;
  let account: string;

  beforeAll(() => {
    cluster = connect();
  });

  afterAll(() => cluster.disconnect());

  beforeEach(() => {
    account = uniqueName('account');
    grant = { resource: `shop/${account}`, fencingToken: Date.now() * 1000, leaseId: 'a'.repeat(32) };
  });

  const fence = (name = account) => redisFence(cluster, { key: () => `fence:{${name}}` });

  test('commands and bodies whose keys are in the slot of the fence run there', async () => {
    const balance = `{${account}}:balance`;
    const reply = await fence().write(grant, (tx) => tx.call<number>('INCRBY', balance, 5));
    expect(reply.value).toBe(5);
    const body = `return redis.call('INCRBY', KEYS[1], ARGV[1])`;
    expect(await fence().eval(grant, body, { keys: [balance], args: [3] })).toBe(8);
  });

  test('a key in another slot is refused before anything is sent, by its name and with what to do', async () => {
    const [balance, astray] = [`{${account}}:balance`, 'account:8:balance'];
    const works = [
      fence().write(grant, (tx) => {
        tx.call('INCRBY', balance, 5);
        tx.call('MSET', balance, 1, astray, 1);
      }),
      fence().eval(grant, `return redis.call('INCR', KEYS[1])`, { keys: [balance, astray] }),
      // The name in braces is the default, and the data has none.
      redisFence(cluster).write(grant, (tx) => tx.call('SET', astray, 1)),
    ];
    for (const [index, work] of works.entries()) {
      await expect(work).rejects.toMatchObject({ code: 'CONFIG', option: index === 1 ? 'keys' : 'tx.call' });
      await expect(work).rejects.toThrow(
        /the key account:8:balance is in another slot of the Cluster than the fence .*; give redisFence a `key`/,
      );
    }
    expect(await cluster.exists(balance)).toBe(0);
    expect(await fence().highest(grant.resource)).toBeNull();
  });

  test('a key that a body does not declare, in another slot, stops it there: what it did before stays', async () => {
    const body = `redis.call('SET', KEYS[1], 'done') return redis.call('SET', ARGV[1], 'never')`;
    const work = fence().eval(grant, body, { keys: [`{${account}}:x`], args: ['account:8:balance'] });
    await expect(work).rejects.toMatchObject({ code: 'FENCED_COMMAND' });
    await expect(work).rejects.toThrow(/the Lua body failed: .*(same slot|non local key)/);
    expect(await cluster.get(`{${account}}:x`)).toBe('done');
    expect(await cluster.get('account:8:balance')).toBeNull();
  });

  test('a slot that moves takes fence and data along, and no stale write gets in on the way', async () => {
    const [from, to] = nodes.members as [never, never];
    const moved = await tagOf(0);
    const slot = await nodes.slotOf(moved);
    const log = `{${moved}}:log:${account}`;
    const own = fence(moved);
    const later = { ...grant, fencingToken: grant.fencingToken + 1, leaseId: 'b'.repeat(32) };
    const push = (by: Grant, entry: string) => own.write(by, (tx) => tx.call('RPUSH', log, entry));
    await push(grant, 'before');
    await push(later, 'later');
    await nodes.beginMove(slot, from, to);
    await nodes.moveKeys(slot, from, to);
    // By ASK; what needs two keys, of which one is there and one is not, is put off until the end of the move.
    const moving = push(later, 'on the way');
    await nodes.endMove(slot, from, to);
    await moving;
    await push(later, 'after');
    await expect(push(grant, 'stale')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(await cluster.lrange(log, 0, -1)).toEqual(['before', 'later', 'on the way', 'after']);
    await nodes.beginMove(slot, to, from);
    await nodes.moveKeys(slot, to, from);
    await nodes.endMove(slot, to, from);
    await push(later, 'back');
  });

  test('a node that is gone answers nothing, and says what became of a write', async () => {
    const lost = await tagOf(2);
    const server = serverOf(2);
    const own = redisFence(cluster, { key: () => `fence:{${lost}}`, timeout: '1s' });
    await own.activate(grant);
    await server.kill();
    const work = own.write(grant, (tx) => tx.call('SET', `{${lost}}:${account}`, 'x'));
    const { error } = await failing(work);
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', fence: 'redis' });
    await server.restart();
    await nodes.settled();
    await until(async () => (await cluster.get(`{${lost}}:${account}`).catch(() => 'gone')) !== 'gone');
    // It was never there, so it must not be said to be.
    expect(['not-written', 'unknown']).toContain(error['outcome']);
    expect(await cluster.get(`{${lost}}:${account}`)).toBeNull();
  });
});
