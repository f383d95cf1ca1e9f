import { systemClock, type Grant } from '@leasehold/core';
import {
  objectFence,
  type ConditionalFence,
  type ConditionalTx,
  type ObjectFenceOptions,
} from '@leasehold/core/conditional';
import { describe, expect, test } from 'vitest';

import { uniqueName } from '../support/redis-client.ts';
import { faults, ObjectServer } from './object-server.ts';

type Log = readonly string[];

const resource = 'test/object';
const path = '/bucket/object';

const append = (tx: ConditionalTx<Log>, entry: string): void => tx.set([...(tx.value ?? []), entry]);

function newGrant(): Grant {
  return { resource, fencingToken: systemClock.wallUs(), leaseId: uniqueName() };
}

function fenceOver(server: ObjectServer, more: Partial<ObjectFenceOptions> = {}): ConditionalFence<Log> {
  return objectFence<Log>({ url: () => server.origin + path, ...more });
}

/** A server with an object, and a fence that knows already that conditions count there. */
async function begin(more?: Partial<ObjectFenceOptions>) {
  const server = await ObjectServer.start();
  const fence = fenceOver(server, more);
  const grant = newGrant();
  await fence.activate(grant);
  await fence.write(grant, (tx) => append(tx, 'before'));
  server.requests.length = 0;
  const entries = (): Log => (JSON.parse(server.get(path) ?? '{}') as { value: Log }).value;
  return {
    server,
    fence,
    grant,
    entries,
    write: (entry: string) => fence.write(grant, (tx) => append(tx, entry)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

describe('the requests', () => {
  test('are a GET, then a PUT with If-None-Match or If-Match; the value is in the object', async () => {
    await using server = await ObjectServer.start();
    const fence = fenceOver(server);
    const grant = newGrant();
    await fence.activate(grant);
    const first = server.etagOf(path);
    await fence.write(grant, (tx) => append(tx, 'one'));
    const [read, create, trial, readAgain, replace, otherTrial, ...rest] = server.requests;
    expect(read).toMatchObject({ method: 'GET', path });
    expect(create).toMatchObject({ method: 'PUT', path, headers: { 'if-none-match': '*' } });
    expect(create?.headers).toMatchObject({ 'content-type': 'application/json' });
    // What it tries once: whether conditions count here. It would write what is there.
    expect(trial).toMatchObject({ method: 'PUT', headers: { 'if-none-match': '*' }, body: create?.body });
    expect(readAgain).toMatchObject({ method: 'GET' });
    expect(replace).toMatchObject({ method: 'PUT', headers: { 'if-match': first } });
    expect(replace?.headers['if-none-match']).toBeUndefined();
    expect(otherTrial).toMatchObject({ method: 'PUT', headers: { 'if-match': first }, body: replace?.body });
    expect(rest).toEqual([]);
    expect(JSON.parse(server.get(path) ?? '')).toMatchObject({ ...grant, value: ['one'] });
  });

  test('go through the fetch that was given, which may sign them', async () => {
    await using server = await ObjectServer.start();
    const signed = fenceOver(server, {
      name: 'bucket',
      url: () => new URL(path, server.origin),
      fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: 'AWS4 …'.slice(0, 4) } }),
    });
    await signed.write(newGrant(), (tx) => append(tx, 'one'));
    expect(signed).toMatchObject({ name: 'bucket', enforcing: true });
    expect(server.requests.length).toBeGreaterThan(2);
    for (const { headers } of server.requests) expect(headers.authorization).toBe('AWS4');
  });

  test('an activation changes the ETag although the value stays as it is', async () => {
    await using all = await begin();
    const [etag, value] = [all.server.etagOf(path), all.entries()];
    await all.fence.activate(newGrant());
    expect(all.entries()).toEqual(value);
    expect(all.server.etagOf(path)).not.toBe(etag);
  });
});

describe('a PUT without a certain answer', () => {
  test.each([
    ['whose answer was lost', faults.loseAnswer],
    ['that was lost', faults.loseRequest],
    ['that met another one', faults.conflict],
    ['that failed in the server after it was done', faults.failAfter],
    ['that was turned away', faults.answer(503, 'SlowDown')],
    ['that came too often', faults.answer(429)],
    ['that stood before a proxy', faults.answer(502)],
  ])('%s is there once in the end', async (_, fault) => {
    await using all = await begin();
    all.server.faults.PUT.push(fault, fault);
    await all.write('mine');
    expect(all.entries()).toEqual(['before', 'mine']);
  });

  test('that is late is there once, and never after a later grant was admitted', async () => {
    await using all = await begin();
    const { server, fence, grant, write, entries } = all;
    server.faults.PUT.push(server.late);
    await write('late');
    server.deliver();
    expect(entries()).toEqual(['before', 'late']);

    const later = newGrant();
    server.faults.PUT.push(server.late);
    // Between the lost answer and the look at what became of it.
    server.faults.GET.push(
      (act) => act(),
      async (act) => {
        await fence.activate(later);
        return act();
      },
    );
    await expect(write('too late')).rejects.toMatchObject({ code: 'STALE_TOKEN', fencingToken: grant.fencingToken });
    server.deliver();
    expect(entries()).toEqual(['before', 'late']);
    await fence.write(later, (tx) => append(tx, 'later'));
    server.deliver();
    expect(entries()).toEqual(['before', 'late', 'later']);
  });

  test('is unknown if that cannot be found out in time', async () => {
    await using all = await begin({ timeout: 300 });
    const { server, write } = all;
    server.faults.PUT.push(faults.loseAnswer);
    const down = Array.from({ length: 50 }, () => faults.answer(503, 'SlowDown'));
    server.faults.GET.push((act) => act(), ...down);
    const error: Error = await write('mine').then(
      () => new Error('it resolved'),
      (reason: unknown) => reason as Error,
    );
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
    // The last try may have had no time left to be answered.
    expect(error.message).toMatch(
      /GET http:\S+ was answered 503 \(SlowDown\)|could not be read: no answer within \d+ ms/,
    );
  });
});

describe('what is refused, with nothing written', () => {
  test.each([
    ['a GET that is turned away', 'GET', faults.answer(503, 'SlowDown'), 'was answered 503 (SlowDown)'],
    ['a GET that comes too often', 'GET', faults.answer(429), 'was answered 429'],
    ['a GET that is not allowed', 'GET', faults.answer(403, 'AccessDenied'), '403 (AccessDenied) (S3 says this of a'],
    ['a weak ETag', 'GET', faults.header('etag', 'W/"1"'), 'came with the weak ETag W/"1"'],
    ['no ETag', 'GET', faults.header('etag', null), 'came without an ETag'],
    ['a PUT that is not allowed', 'PUT', faults.answer(403, 'AccessDenied'), 'PUT http'],
    ['a store without conditions', 'PUT', faults.answer(501, 'NotImplemented'), 'does this store support conditional'],
    [
      'a PUT that is sent elsewhere',
      'PUT',
      faults.answer(303, 'Other', { location: '/login' }),
      'requests are not sent',
    ],
    [
      'a GET that is sent elsewhere',
      'GET',
      faults.answer(307, 'Other', { location: '/login' }),
      'requests are not sent',
    ],
  ] as const)('%s', async (_, method, fault, said) => {
    await using all = await begin();
    all.server.faults[method].push(fault);
    const write = all.write('mine');
    await expect(write).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    await expect(write).rejects.toThrow(said);
    expect(all.entries()).toEqual(['before']);
    await all.write('mine');
    expect(all.entries()).toEqual(['before', 'mine']);
  });

  test('a missing bucket', async () => {
    await using server = await ObjectServer.start();
    server.faults.PUT.push(faults.answer(404, 'NoSuchBucket'));
    await expect(fenceOver(server).activate(newGrant())).rejects.toThrow(
      '404 (NoSuchBucket) (is there such a bucket?)',
    );
  });

  test.each(['<html></html>', 'null', '{"balance": 7}', '[]'])(
    'an object that is not of this fence: %s',
    async (body) => {
      await using server = await ObjectServer.start();
      server.put(path, body);
      for (const call of [() => fenceOver(server).activate(newGrant()), () => fenceOver(server).highest(resource)]) {
        await expect(call()).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
      }
      expect(server.get(path)).toBe(body);
    },
  );

  test('two resources with one object', async () => {
    await using all = await begin();
    const grant = { ...newGrant(), resource: 'test/other' };
    await expect(all.fence.activate(grant)).rejects.toThrow('two resources must not have one place');
  });

  test('an object that was deleted in the middle of a write', async () => {
    await using all = await begin();
    all.server.faults.PUT.push((act) => {
      all.server.delete(path);
      return act();
    });
    await expect(all.write('mine')).rejects.toThrow('somebody has deleted it, and with it what the fence knew');
  });

  const lost: readonly unknown[] = [
    ...[() => {}, Symbol('x'), 7n, { toJSON: () => undefined }],
    // What JSON would change without a word.
    ...[Number.NaN, { a: [Infinity] }, new Map([[1, 2]]), { a: new Set() }, [undefined], { a: () => {} }],
    ...[new Uint8Array(1), /x/, new Error('x')],
  ];
  test.each(lost.map((value) => ({ value })))('what JSON cannot hold: $value', async ({ value }) => {
    await using all = await begin();
    const write = all.fence.write(all.grant, (tx) => tx.set(value as never));
    await expect(write).rejects.toThrow('CONFIG: tx.set: got');
    expect(all.entries()).toEqual(['before']);
  });

  test.each(['if-match', 'if-none-match'] as const)('a store that does not know %s', async (name) => {
    await using server = await ObjectServer.start();
    server.ignored.add(name);
    const fence = fenceOver(server);
    const used = async (): Promise<void> => {
      for (let index = 0; index < 2; index++) await fence.activate(newGrant());
    };
    await expect(used()).rejects.toThrow('CONFIG: compareAndSet: ');
    await expect(fence.write(newGrant(), (tx) => append(tx, 'one'))).rejects.toThrow('it protects nothing');
  });

  test.each([['bucket/key'], [''], [undefined], ['ftp://127.0.0.1/key']])('the URL %o', async (url) => {
    const fence = objectFence({ url: () => url as string });
    await expect(fence.activate(newGrant())).rejects.toThrow('CONFIG: url: gave');
  });

  test.each([
    ['url', { url: 'http://127.0.0.1/key' }],
    ['fetch', { fetch: 'fetch' }],
    ['timeout', { timeout: 0 }],
    ['bucket', { bucket: 'x' }],
  ])('the option %s: %o', (option, wrong) => {
    const options = { url: () => 'http://127.0.0.1/key', ...wrong } as unknown as ObjectFenceOptions;
    expect(() => objectFence(options)).toThrow(`CONFIG: ${option}: `);
  });
});

test('large data goes under keys of its own, and the fence points to it: what comes late is never seen', async () => {
  await using server = await ObjectServer.start();
  const pointer = objectFence<string>({ url: () => `${server.origin}/bucket/report` });
  const upload = async (data: string): Promise<string> => {
    const key = `/bucket/report-${uniqueName()}`;
    await fetch(server.origin + key, { method: 'PUT', headers: { 'if-none-match': '*' }, body: data });
    return key;
  };
  const read = async (): Promise<string | undefined> => {
    const { value } = (await (await fetch(`${server.origin}/bucket/report`)).json()) as { value: string };
    return server.get(value);
  };
  const [older, newer] = [newGrant(), newGrant()];
  await pointer.activate(older);
  const olderKey = await upload('of the older one');
  await pointer.activate(newer);
  const newerKey = await upload('of the newer one');
  await pointer.write(newer, (tx) => tx.set(newerKey));
  await expect(pointer.write(older, (tx) => tx.set(olderKey))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  expect(await read()).toBe('of the newer one');
});
