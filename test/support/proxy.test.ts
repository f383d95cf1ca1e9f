import { afterAll, beforeAll, expect, test } from 'vitest';

import { TcpProxy } from './proxy.ts';
import { connectRedis } from './redis-client.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
});

afterAll(async () => {
  await server.stop();
});

/** A proxy before the server, a client through it, and one that goes straight. */
async function through() {
  const stack = new AsyncDisposableStackLike();
  const proxy = stack.use(await TcpProxy.start(server));
  const client = stack.use(await connectRedis(proxy.redisUrl, { maxRetriesPerRequest: 0, retryStrategy: null }));
  const direct = stack.use(await connectRedis(server.url));
  await direct.flushall();
  return { proxy, client, direct, [Symbol.asyncDispose]: () => stack.dispose() };
}

class AsyncDisposableStackLike {
  readonly #things: AsyncDisposable[] = [];
  use<T extends AsyncDisposable>(thing: T): T {
    this.#things.push(thing);
    return thing;
  }
  async dispose() {
    for (const thing of this.#things.toReversed()) await thing[Symbol.asyncDispose]();
  }
}

const silence = (ms: number) => new Promise<'silence'>((resolve) => setTimeout(resolve, ms, 'silence'));

test('passes everything on and counts it', async () => {
  await using net = await through();
  const before = { ...net.proxy.counters };
  expect(await net.client.set('k', 'v'.repeat(200_000))).toBe('OK');
  expect((await net.client.get('k'))?.length).toBe(200_000);
  expect(net.proxy.counters.connections).toBe(1);
  expect(net.proxy.openConnections).toBe(1);
  expect(net.proxy.counters.upBytes - before.upBytes).toBeGreaterThan(200_000);
  expect(net.proxy.counters.downBytes - before.downBytes).toBeGreaterThan(200_000);
});

test('the end of a connection goes through in both directions', async () => {
  await using net = await through();
  const closed = new Promise((resolve) => net.client.once('close', resolve));
  await net.direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await closed;
  await expect.poll(() => net.proxy.openConnections).toBe(0);
});

test('swallow up: the server never sees it', async () => {
  await using net = await through();
  net.proxy.swallow('up');
  expect(await Promise.race([net.client.incr('n'), silence(100)])).toBe('silence');
  net.proxy.cut();
  expect(await net.direct.get('n')).toBeNull();
  expect(net.proxy.counters.lostBytes).toBeGreaterThan(0);
});

test('swallow down: it is done and nobody hears of it', async () => {
  await using net = await through();
  net.proxy.swallow('down');
  const reply = net.client.incr('n');
  await expect.poll(() => net.direct.get('n')).toBe('1');
  expect(await Promise.race([reply, silence(50)])).toBe('silence');
  net.proxy.cut();
  await expect(reply).rejects.toThrow();
});

test('hold: what was sent during the partition arrives when it heals, also from a sender that is gone', async () => {
  await using net = await through();
  net.proxy.hold('up', 'down');
  const arrived = net.proxy.nextRequest('incr');
  net.client.incr('n').catch(() => {});
  await arrived;
  net.client.disconnect();
  expect(await net.direct.get('n')).toBeNull();
  net.proxy.pass();
  await expect.poll(() => net.direct.get('n')).toBe('1');
});

test('delay keeps the order', async () => {
  await using net = await through();
  net.proxy.delay({ up: 80, down: 80 });
  const begin = performance.now();
  const first = net.client.rpush('list', 'a');
  net.proxy.delay({ up: 0 });
  const second = net.client.rpush('list', 'b');
  expect(await Promise.all([first, second])).toEqual([1, 2]);
  expect(performance.now() - begin).toBeGreaterThan(75);
});

test('cut ends open connections; refuse turns new ones away', async () => {
  await using net = await through();
  net.proxy.refuse();
  await expect(connectRedis(net.proxy.redisUrl, { retryStrategy: null })).rejects.toThrow();
  expect(await net.client.ping()).toBe('PONG');
  expect(net.proxy.counters.refused).toBe(1);
  const closed = new Promise((resolve) => net.client.once('close', resolve));
  net.proxy.cut('end');
  await closed;
  net.proxy.pass();
  await using again = await connectRedis(net.proxy.redisUrl);
  expect(await again.ping()).toBe('PONG');
});

test('a lost reply: executed, then the connection is reset', async () => {
  await using net = await through();
  const lost = net.proxy.loseNextReply('incr');
  expect(await net.client.get('n')).toBeNull();
  await expect(net.client.incr('n')).rejects.toThrow();
  await lost;
  expect(await net.direct.get('n')).toBe('1');
});

test('a lost request: not executed', async () => {
  await using net = await through();
  const lost = net.proxy.loseNextRequest('incr');
  await expect(net.client.incr('n')).rejects.toThrow();
  await lost;
  expect(await net.direct.get('n')).toBeNull();
});

test('a duplicate arrives beside the original, at once or when told', async () => {
  await using net = await through();
  const copy = net.proxy.duplicateNextRequest('incr');
  await net.client.incr('n');
  expect((await copy).toString()).toMatch(/^:[12]\r\n$/);
  expect(await net.direct.get('n')).toBe('2');

  let release = (): void => {};
  const late = net.proxy.duplicateNextRequest('incr', new Promise<void>((resolve) => (release = resolve)));
  expect(await net.client.incr('n')).toBe(3);
  net.client.disconnect();
  release();
  expect((await late).toString()).toBe(':4\r\n');
});

test('a server that is not there is a connection reset', async () => {
  await using proxy = await TcpProxy.start({ port: 1 });
  await expect(connectRedis(proxy.redisUrl, { retryStrategy: null })).rejects.toThrow();
});
