import { describe, expect, test } from 'vitest';

import { FenceUnavailableError, RunCancelledError } from '../../src/errors.ts';
import type { Grant } from '../../src/fence/fence.ts';
import { MemoryFence } from '../../src/fence/memory.ts';
import { fenced, fenceRoute, httpFence, signer, type HttpFenceOptions } from '../../src/http/index.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';
import { unreadable } from '../thrown.ts';
import { FakeFetch, grant, Held } from './held.ts';

const url = 'http://127.0.0.1:9/v1/fence';
const sign = signer({ keys: { k1: 'x'.repeat(32) }, current: 'k1' });
const newFence = (fake: FakeFetch, more: Partial<HttpFenceOptions> = {}) =>
  httpFence({ url, fetch: fake.fetch, ...more });
const page =
  (status: number, headers: Record<string, string> = {}) =>
  (): Response =>
    new Response(status === 204 ? null : 'a page', { status, headers });
const admitted = page(204, { 'Fencing-Enforcing': '1' });

/** A service in this process: a fence route, and /entries. */
function newService(ledger: MemoryFence = new MemoryFence()): FakeFetch {
  const route = fenceRoute(ledger);
  const enter = fenced({ resource: grant.resource }, async (request, its) => {
    await ledger.write(its, async (tx) => tx.set('entry', await request.text()));
    return new Response('entered');
  });
  return new FakeFetch((request) => (request.url === url ? route(request) : enter(request)));
}

describe('activate', () => {
  test('is a POST of the grant without a body, answered by a fence', async () => {
    const fake = new FakeFetch(admitted);
    await newFence(fake, { sign }).activate(new Held());
    const [request] = fake.requests as [Request];
    expect([request.url, request.method, request.redirect, request.body]).toEqual([url, 'POST', 'manual', null]);
    expect(Object.fromEntries(request.headers)).toEqual({
      'fencing-lease': 'a1b2',
      'fencing-resource': 'shop%2Fpears',
      'fencing-signature': sign(grant),
      'fencing-token': '1700000000000000',
    });
  });

  test('takes no page for a fence: not a 200, not a login, not another method', async () => {
    const fake = new FakeFetch();
    const fence = newFence(fake);
    for (const status of [200, 201, 204, 301, 307, 404, 405, 412, 500, 502]) {
      fake.answer = page(status, { Location: 'http://127.0.0.1:1/' });
      const error: unknown = await fence.activate(grant).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(FenceUnavailableError);
      expect((error as Error).message).toContain(`POST ${url} answered ${status} and is no fence route`);
    }
    fake.answer = page(302, { 'Fencing-Enforcing': '1' });
    await expect(fence.activate(grant)).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    expect(fence.enforcing).toBe(false);
  });

  test('a refusal of the headers says which', async () => {
    const fake = new FakeFetch(page(401, { 'Fencing-Error': 'FENCING_HEADER;reason=signature' }));
    await expect(newFence(fake).activate(grant)).rejects.toThrow('answered 401 FENCING_HEADER;reason=signature');
  });

  test('a refusal of the grant is told to the lease', async () => {
    const fake = new FakeFetch(page(412, { 'Fencing-Highest': '1700000000000001', 'Fencing-Highest-Lease': 'c3' }));
    const lease = new Held();
    await expect(newFence(fake, { name: 'shop' }).activate(lease)).rejects.toMatchObject({
      ...{ code: 'STALE_TOKEN', fence: 'shop', highest: { fencingToken: 1_700_000_000_000_001, leaseId: 'c3' } },
    });
    expect(lease.refusals).toHaveLength(1);
  });

  test('enforcing is what every service said last, and nothing before', async () => {
    const fake = new FakeFetch(admitted);
    const fence = newFence(fake, { url: (resource) => `http://127.0.0.1:${resource === 'shop/a' ? 1 : 2}/fence` });
    const says = async (resource: string, value: string): Promise<boolean> => {
      fake.answer = page(204, { 'Fencing-Enforcing': value });
      await fence.activate({ ...grant, resource });
      return fence.enforcing;
    };
    expect(fence.enforcing).toBe(false);
    expect(await says('shop/a', '1')).toBe(true);
    expect(await says('shop/b', '0')).toBe(false);
    expect(await says('shop/a', '1')).toBe(false);
    expect(await says('shop/b', '1')).toBe(true);
    for (const value of ['0', 'true', '', 'yes']) expect(await says('shop/a', value)).toBe(false);
    fake.answer = page(200);
    await expect(fence.activate({ ...grant, resource: 'shop/a' })).rejects.toThrow('no fence route');
    expect(fence.enforcing).toBe(false);
  });

  test('a fence behind the service that enforces nothing is not claimed to', async () => {
    const weak = Object.assign(new MemoryFence(), { enforcing: false });
    const fence = newFence(newService(weak));
    await fence.activate(grant);
    expect(fence.enforcing).toBe(false);
    const strong = newFence(newService());
    await strong.activate(grant);
    expect(strong.enforcing).toBe(true);
  });

  test('settles within the timeout, also if fetch listens to no signal', async () => {
    const clock = new ManualClock();
    const fake = new FakeFetch(() => new Promise(() => {}));
    const fence = newFence(fake, { clock, timeout: '2s' });
    const calls = [fence.activate(grant), fence.highest(grant.resource), fence.seal(grant.resource, 5)];
    const settled = Promise.allSettled(calls);
    clock.advance(1999);
    expect(fake.requests.every(({ signal }) => !signal.aborted)).toBe(true);
    clock.advance(1);
    for (const each of await settled) {
      expect(each).toMatchObject({ status: 'rejected', reason: { code: 'FENCE_UNAVAILABLE', outcome: 'unknown' } });
    }
    expect(fake.requests.every(({ signal }) => signal.aborted)).toBe(true);
  });

  test('a service that cannot be reached is unavailable, and the cause is named', async () => {
    const fake = new FakeFetch(() => {
      throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:9') });
    });
    await expect(newFence(fake).activate(grant)).rejects.toThrow('was lost: fetch failed: connect ECONNREFUSED');
  });
});

describe('highest and seal', () => {
  test('none is none only if a fence says so', async () => {
    const fake = new FakeFetch(admitted);
    const fence = newFence(fake);
    expect(await fence.highest('shop/pears')).toBeNull();
    expect(Object.fromEntries(fake.headers)).toEqual({ 'fencing-resource': 'shop%2Fpears' });
    fake.answer = page(204, { 'Fencing-Enforcing': '1', 'Fencing-Highest': '5' });
    expect(await fence.highest('shop/pears')).toEqual({ fencingToken: 5, leaseId: null });
    for (const headers of [{}, { 'Fencing-Enforcing': '1', 'Fencing-Highest': '05' }]) {
      fake.answer = page(200, headers);
      await expect(fence.highest('shop/pears')).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    }
  });

  test('a service that lets nobody seal says so', async () => {
    const service = newService();
    const fence = newFence(service);
    await expect(fence.seal('shop/pears', 5)).rejects.toThrow(`PUT ${url} answered 405: not allowed there`);
    expect(service.requests.map(({ method, headers }) => [method, headers.get('fencing-token')])).toEqual([
      ['PUT', '5'],
    ]);
  });

  test('a service that lets some seal lets the others not, and refuses what is no token', async () => {
    const ledger = new MemoryFence();
    let may: unknown = true;
    const route = fenceRoute(ledger, { allowSeal: () => may as boolean });
    const fence = newFence(new FakeFetch(route));
    await fence.seal('shop/pears', 5);
    expect(await fence.highest('shop/pears')).toEqual({ fencingToken: 5, leaseId: null });
    for (may of [false, undefined, 'yes', 1]) {
      await expect(fence.seal('shop/pears', 6)).rejects.toThrow('answered 403: not allowed there');
    }
    may = true;
    for (const token of ['0', '05', '1e3', '', '9007199254740992']) {
      const headers = { 'Fencing-Resource': 'shop%2Fpears', 'Fencing-Token': token };
      expect((await route(new Request(url, { method: 'PUT', headers }))).status).toBe(400);
    }
    expect((await route(new Request(url, { method: 'PUT' }))).status).toBe(428);
    await expect(fence.seal('shop/pears', Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({
      code: 'TOKEN_OUT_OF_RANGE',
    });
    expect(await ledger.highest('shop/pears')).toEqual({ fencingToken: 5, leaseId: null });
  });
});

describe('write', () => {
  test('gives a fetch under the lease, for paths of the service', async () => {
    const service = newService();
    const lease = new Held();
    const fence = newFence(service, { sign });
    const text = await fence.write(lease, async (send) =>
      (await send('/entries', { method: 'POST', body: 'x' })).text(),
    );
    expect(text).toBe('entered');
    expect(service.requests[0]?.url).toBe('http://127.0.0.1:9/entries');
    expect(service.headers.get('fencing-signature')).toBe(sign(grant));
    for (const input of ['entries', new URL('http://127.0.0.1:9/a'), new Request('http://127.0.0.1:9/b')]) {
      await fence.write(lease, (send) => send(input));
    }
    expect(service.requests.slice(1).map((each) => new URL(each.url).pathname)).toEqual(['/v1/entries', '/a', '/b']);
  });

  test('goes to the service that was activated and to no other', async () => {
    const service = newService();
    const fence = newFence(service);
    for (const input of ['http://127.0.0.1:8/entries', '//example.test/x', 'https://127.0.0.1:9/x']) {
      for (const form of [input, new Request(new URL(input, url))]) {
        await expect(fence.write(grant, (send) => send(form))).rejects.toThrow('which this fence was activated at');
      }
    }
    await expect(fence.write(grant, (send) => send('http://'))).rejects.toThrow('CONFIG: fetch: was given "http://"');
    expect(service.requests).toEqual([]);
  });

  test('asks the lease at each request: held, and activated at this fence', async () => {
    const service = newService();
    const lease = new Held();
    const fence = newFence(service);
    const twice = fence.write(lease, async (send) => {
      await send('/entries', { method: 'POST', body: '1' });
      lease.isHeld = false;
      await send('/entries', { method: 'POST', body: '2' });
    });
    await expect(twice).rejects.toMatchObject({ code: 'LEASE_LOST' });
    lease.isHeld = true;
    lease.isActivated = false;
    let ran = false;
    await expect(fence.write(lease, () => void (ran = true))).rejects.toMatchObject({ code: 'FENCE_NOT_ACTIVATED' });
    expect([ran, service.requests.length]).toEqual([false, 1]);
  });

  test('two requests are two steps: what the first has done stays', async () => {
    const ledger = new MemoryFence();
    const fence = newFence(newService(ledger));
    const own = new Error('the body’s own');
    const write = fence.write(grant, async (send) => {
      await send('/entries', { method: 'POST', body: 'first' });
      throw own;
    });
    await expect(write).rejects.toBe(own);
    expect(ledger.values.get('entry')).toBe('first');
  });

  test('a refusal cannot be ignored', async () => {
    const ledger = new MemoryFence();
    const service = newService(ledger);
    const fence = newFence(service);
    const lease = new Held();
    await ledger.activate({ ...grant, fencingToken: grant.fencingToken + 1 });
    const swallowing = fence.write(lease, async (send) => {
      await send('/entries', { method: 'POST', body: 'late' }).catch(() => {});
      return 'all is well';
    });
    await expect(swallowing).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(lease.refusals).toHaveLength(1);
    const forgetful = fence.write(grant, (send) => {
      void send('/entries', { method: 'POST', body: 'late' });
    });
    await expect(forgetful).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(ledger.values.size).toBe(0);
  });

  test('is over when all it began is answered, and its fetch with it', async () => {
    let answer = (_: Response): void => {};
    const fake = new FakeFetch(() => new Promise((resolve) => (answer = resolve)));
    const fence = newFence(fake);
    let kept: typeof fetch | undefined;
    let isOver = false;
    const write = fence
      .write(grant, (send) => {
        kept = send;
        void send('/entries');
        return 'returned';
      })
      .finally(() => (isOver = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    await expect(kept?.('/entries')).rejects.toThrow('CONFIG: fetch: this write is over');
    answer(new Response());
    expect(await write).toBe('returned');
    // Also when the body throws, and then only its own error comes out.
    const own = new Error('the body’s own');
    const order: string[] = [];
    const failing = fence.write(grant, (send) => {
      void send('/entries');
      throw own;
    });
    const failed = failing.catch((error: unknown) => (order.push('failed'), error));
    await new Promise((resolve) => setImmediate(resolve));
    order.push('answered');
    answer(new Response(null, { status: 412, headers: { 'Fencing-Highest': String(grant.fencingToken + 1) } }));
    expect(await failed).toBe(own);
    expect(order).toEqual(['answered', 'failed']);
    fake.answer = () => {
      throw new TypeError('the line broke');
    };
    await expect(fence.write(grant, (send) => void send('/entries'))).rejects.toThrow('was lost: the line broke');
    expect(fake.requests).toHaveLength(3);
  });

  test('without a request it would check nothing', async () => {
    const fence = newFence(newService());
    await expect(fence.write(grant, () => 'done')).rejects.toThrow('CONFIG: body: sent no request');
    await expect(fence.write(grant, 'body' as never)).rejects.toThrow('CONFIG: body');
  });

  test('an answer that the handler had no part in is no answer; every other one is the caller’s', async () => {
    const fake = new FakeFetch();
    const fence = newFence(fake);
    const ours = { 428: 'FENCING_HEADER;reason=missing', 400: 'FENCING_HEADER', 503: 'FENCE_UNAVAILABLE' };
    for (const [status, code] of Object.entries(ours)) {
      fake.answer = page(Number(status), { 'Fencing-Error': code });
      await expect(fence.write(grant, (send) => send('/entries'))).rejects.toThrow(`answered ${status} ${code}`);
    }
    for (const status of [200, 303, 400, 409, 412, 500]) {
      fake.answer = page(status);
      expect(await fence.write(grant, async (send) => (await send('/entries')).status)).toBe(status);
    }
  });

  test('the caller’s own abort and the lease’s come out as they are, a silent service as unavailable', async () => {
    const clock = new ManualClock();
    const hang: FakeFetch['answer'] = ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    const fake = new FakeFetch(hang);
    const fence = newFence(fake, { clock, timeout: 100 });
    const lease = new Held();
    const own = new AbortController();
    const mine = new Error('mine');
    const aborted = fence.write(lease, (send) => send('/entries', { signal: own.signal }));
    own.abort(mine);
    await expect(aborted).rejects.toBe(mine);
    const silent = expect(fence.write(lease, (send) => send('/entries'))).rejects.toThrow('no answer within 100 ms');
    clock.advance(100);
    await silent;
    expect(fake.requests.at(-1)?.signal.aborted).toBe(true);
    const cancelled = fence.write(lease, (send) => send('/entries'));
    const reason = new RunCancelledError('pears', 'shutdown', grant.fencingToken);
    lease.controller.abort(reason);
    await expect(cancelled).rejects.toBe(reason);
  });
});

test('options that cannot work are refused when the fence is made', async () => {
  const wrong: [unknown, string][] = [
    [{}, 'CONFIG: url: is undefined'],
    [{ url: '/fence' }, 'url: is "/fence": must be the http: or https: address'],
    [{ url: 'ftp://127.0.0.1/' }, 'url: is "ftp://127.0.0.1/"'],
    [{ url: 'http://me:secret@127.0.0.1/' }, 'url: has a user in it'],
    [{ url, timeout: 0 }, 'timeout: 0 gives no call a deadline'],
    [{ url, timeout: Infinity }, 'timeout: Infinity gives no call a deadline'],
    [{ url, timeout: '5sec' }, 'is not a duration'],
    [{ url, fetch: {} }, 'fetch: is an object'],
    [{ url, sign: 'x' }, 'sign: is "x"'],
    [{ url, retries: 3 }, 'retries: is not an option here'],
    [undefined, 'CONFIG: options'],
  ];
  for (const [options, message] of wrong) {
    expect(() => httpFence(options as HttpFenceOptions)).toThrow(message);
    expect(() => httpFence(options as HttpFenceOptions)).not.toThrow('secret');
  }
  const lazy = httpFence({ url: () => 'nowhere' });
  await expect(lazy.activate(grant)).rejects.toThrow('CONFIG: url: is "nowhere"');
  for (const none of [7, '7', null])
    await expect(lazy.activate(none as unknown as Grant)).rejects.toThrow('CONFIG: grant');
});

describe('what is no fault of the service', () => {
  test('a request that fetch could not send is a wrong call, not a lost one', async () => {
    const service = newService();
    const fence = newFence(service);
    await fence.activate(grant);
    for (const init of [{ headers: { 'x\n': 'y' } }, { method: 'CONNECT' }]) {
      await expect(fence.write(grant, (send) => send('/entries', init))).rejects.toMatchObject({ code: 'CONFIG' });
    }
    const { host } = new URL(url);
    const secret = fence.write(grant, (send) => send(`http://user:password@${host}/entries`));
    await expect(secret).rejects.toMatchObject({ code: 'CONFIG' });
    expect(service.requests).toHaveLength(1);
  });

  test.each(['url', 'sign'])(
    'a function `%s` that throws is a wrong option, with its error as the cause',
    async (option) => {
      const cause = new Error('no key');
      const throws = (): never => {
        throw cause;
      };
      const fence = newFence(new FakeFetch(admitted), { [option]: throws });
      const calls = [() => fence.activate(grant), () => fence.write(grant, (send) => send('/entries'))];
      for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'CONFIG', option, cause });
    },
  );

  test.each(unreadable)('a fetch that throws what cannot be looked at: %s', async (_, make) => {
    const fence = newFence(
      new FakeFetch(() => {
        throw make();
      }),
    );
    await expect(fence.activate(grant)).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'unknown' });
  });
});
