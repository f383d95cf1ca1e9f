import { describe, expect, test } from 'vitest';

import { ConfigError, RunCancelledError } from '../../src/errors.ts';
import { fencedFetch, fencingHeaders, signer } from '../../src/http/index.ts';
import { thrownBy } from '../thrown.ts';
import { FakeFetch, grant, Held } from './held.ts';

const url = 'http://127.0.0.1:9/entries';
const ours = { 'Fencing-Resource': 'shop%2Fpears', 'Fencing-Token': '1700000000000000', 'Fencing-Lease': 'a1b2' };
const sign = signer({ keys: { k1: 'x'.repeat(32) }, current: 'k1' });
const refusal =
  (headers: Record<string, string>, status = 412) =>
  (): Response =>
    new Response('the body', { status, headers });

describe('fencingHeaders', () => {
  test('writes the grant of a lease that is held, or a bare one', () => {
    const lease = new Held();
    expect(fencingHeaders(lease)).toEqual(ours);
    expect(lease.asked).toBe(1);
    expect(fencingHeaders(grant)).toEqual(ours);
    expect(fencingHeaders(grant, { sign })).toEqual({ ...ours, 'Fencing-Signature': sign(grant) });
  });

  test('refuses a lease that is lost', () => {
    const lease = new Held();
    lease.isHeld = false;
    expect(() => fencingHeaders(lease)).toThrow('LEASE_LOST');
  });

  test('writes nothing that could not be read again, or would be more than one header', () => {
    const wrong = [
      ...[
        'pears',
        '',
        '/pears',
        'shop/',
        'shop/a\r\nX-More: 1',
        'shop/\u0000',
        'shop/\ud800',
        `shop/${'x'.repeat(257)}`,
      ].map((resource) => ({ ...grant, resource })),
      ...['', 'a\r\nb', '\udfff', 'x'.repeat(257)].map((leaseId) => ({ ...grant, leaseId })),
      ...[0, -1, 1.5, 2 ** 53, Number.NaN, '5', 5n].map((token) => ({ ...grant, fencingToken: token as number })),
    ];
    for (const each of wrong) expect(() => fencingHeaders(each)).toThrow(ConfigError);
    for (const none of [7, '7', null, undefined]) expect(() => fencingHeaders(none as never)).toThrow(ConfigError);
  });

  test('refuses a signature that comes late or is no header, and shows nothing of it', () => {
    for (const signature of [Promise.resolve('late'), '', 'a\r\nb', 'with space', 'a,b', 'é', 5, undefined]) {
      const withIt = (): unknown => fencingHeaders(grant, { sign: () => signature as string });
      expect(withIt).toThrow('CONFIG: sign: must give a signature at once, as 1 to 1,024 visible characters');
    }
    expect(() => fencingHeaders(grant, { sign: 'secret' as never })).toThrow(ConfigError);
    expect(() => fencingHeaders(grant, { singn: sign } as never)).toThrow('singn: is not an option here');
  });
});

describe('fencedFetch', () => {
  test('adds the headers to whatever form a request has, and changes nothing else of it', async () => {
    const fake = new FakeFetch();
    const send = fencedFetch(new Held(), { fetch: fake.fetch, sign });
    const post = { method: 'POST', body: 'pears' };
    const own = { 'X-Own': '1' };
    const forms: (() => Promise<Response>)[] = [
      () => send(url, { ...post, headers: own }),
      () => send(new URL(url), { ...post, headers: new Headers(own) }),
      () => send(url, { ...post, headers: [['X-Own', '1']] }),
      () => send(new Request(url, { ...post, headers: own })),
      () => send(new Request(url, { headers: { 'X-Other': '2' } }), { ...post, headers: own }),
      () => send(new Request(url, { ...post, headers: { ...own, ...ours } })),
    ];
    for (const form of forms) {
      await form();
      const request = fake.requests.at(-1) as Request;
      expect([request.url, request.method, await request.text()]).toEqual([url, 'POST', 'pears']);
      expect(Object.fromEntries([...request.headers].filter(([name]) => name !== 'content-type'))).toEqual({
        'fencing-lease': 'a1b2',
        'fencing-resource': 'shop%2Fpears',
        'fencing-token': '1700000000000000',
        'fencing-signature': sign(grant),
        'x-own': '1',
      });
    }
    await send(url);
    expect(fake.headers.get('fencing-token')).toBe('1700000000000000');
  });

  test('refuses to send when other Fencing headers are set', async () => {
    const fake = new FakeFetch();
    const send = fencedFetch(grant, { fetch: fake.fetch });
    for (const name of ['Fencing-Token', 'fencing-resource', 'FENCING-LEASE', 'Fencing-Signature', 'Fencing-New']) {
      const headers = { [name]: '1' };
      for (const input of [url, new Request(url, { headers })]) {
        await expect(send(input, input === url ? { headers } : {})).rejects.toThrow(
          `CONFIG: headers: set ${name.toLowerCase()} to something else`,
        );
      }
    }
    await expect(send(url, new Request(url) as RequestInit)).rejects.toThrow('CONFIG: init: is a Request');
    expect(fake.requests).toEqual([]);
  });

  test('asks the lease at each request, and awaits nothing between that and the send', async () => {
    const lease = new Held();
    const order: string[] = [];
    const assertHeld = lease.assertHeld.bind(lease);
    lease.assertHeld = () => {
      order.push('asked');
      assertHeld();
    };
    const send = fencedFetch(lease, { fetch: async () => (order.push('sent'), new Response()) });
    const answers = [send(url)];
    expect(order.splice(0)).toEqual(['asked', 'sent']);
    answers.push(send(new Request(url, { method: 'POST', body: 'pears' })));
    expect(order.splice(0)).toEqual(['asked', 'sent']);
    await Promise.all(answers);
    lease.isHeld = false;
    await expect(send(url)).rejects.toMatchObject({ code: 'LEASE_LOST' });
    expect(order).toEqual(['asked']);
  });

  test('a 412 with Fencing-Highest is a refusal, and told to the lease', async () => {
    const lease = new Held();
    const later = String(grant.fencingToken + 1);
    const fake = new FakeFetch(refusal({ 'Fencing-Highest': later, 'Fencing-Highest-Lease': 'c3' }));
    const error: unknown = await fencedFetch(lease, { fetch: fake.fetch })(url).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'STALE_TOKEN',
      ...{ resource: 'shop/pears', fencingToken: grant.fencingToken, fence: '127.0.0.1:9' },
      highest: { fencingToken: grant.fencingToken + 1, leaseId: 'c3' },
    });
    expect(lease.refusals).toEqual([error]);
    const sealed = new Held();
    fake.answer = refusal({ 'Fencing-Highest': String(grant.fencingToken) });
    await expect(fencedFetch(sealed, { fetch: fake.fetch })(url)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      highest: { fencingToken: grant.fencingToken, leaseId: null },
    });
    expect(sealed.refusals).toHaveLength(1);
    await expect(fencedFetch(grant, { fetch: fake.fetch })(url)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  test('any other 412 is somebody’s ETag, and every other answer the caller’s own', async () => {
    const lease = new Held();
    const fake = new FakeFetch();
    const send = fencedFetch(lease, { fetch: fake.fetch });
    const { fencingToken } = grant;
    const others = [
      refusal({ ETag: '"5"' }),
      ...['', '05', '1e30', 'NaN', '-1', String(2 ** 53), `${fencingToken + 1}, ${fencingToken + 1}`].map((highest) =>
        refusal({ 'Fencing-Highest': highest }),
      ),
      // These would let the grant in.
      refusal({ 'Fencing-Highest': String(fencingToken - 1) }),
      refusal({ 'Fencing-Highest': String(fencingToken), 'Fencing-Highest-Lease': grant.leaseId }),
      ...[200, 400, 401, 409, 428, 500, 503].map((status) =>
        refusal({ 'Fencing-Highest': String(fencingToken + 1) }, status),
      ),
    ];
    for (const answer of others) {
      fake.answer = answer;
      const response = await send(url);
      expect(response.status).toBe(answer().status);
      expect(await response.text()).toBe('the body');
    }
    expect(lease.refusals).toEqual([]);
  });

  test('a token out of range is said to be, and does not cost the lease', async () => {
    const lease = new Held();
    const fake = new FakeFetch(refusal({ 'Fencing-Error': 'TOKEN_OUT_OF_RANGE' }, 400));
    await expect(fencedFetch(lease, { fetch: fake.fetch })(url)).rejects.toMatchObject({ code: 'TOKEN_OUT_OF_RANGE' });
    expect(lease.refusals).toEqual([]);
  });

  test('a refusal is told even if its body cannot be thrown away', async () => {
    const answer = refusal({ 'Fencing-Highest': String(grant.fencingToken + 1) })();
    Object.defineProperty(answer, 'body', { value: { cancel: 'no function' } });
    const lease = new Held();
    await expect(fencedFetch(lease, { fetch: async () => answer })(url)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(lease.refusals).toHaveLength(1);
  });

  test('is never redirected', async () => {
    const fake = new FakeFetch();
    const send = fencedFetch(grant, { fetch: fake.fetch });
    const asked: (readonly [Parameters<typeof fetch>[0], RequestInit, string])[] = [
      [url, {}, 'manual'],
      [url, { redirect: 'manual' }, 'manual'],
      [url, { redirect: 'error' }, 'error'],
      [new Request(url), {}, 'manual'],
      [new Request(url, { redirect: 'follow' }), {}, 'manual'],
      [new Request(url, { redirect: 'error' }), {}, 'error'],
      [new Request(url, { redirect: 'error' }), { redirect: 'manual' }, 'manual'],
    ];
    for (const [input, init, redirect] of asked) {
      await send(input, init);
      expect(fake.requests.at(-1)?.redirect).toBe(redirect);
    }
    await expect(send(url, { redirect: 'follow' })).rejects.toThrow("CONFIG: redirect: 'follow' would show the grant");
    expect(fake.requests).toHaveLength(asked.length);
  });

  test('what fetch could not send is a wrong call, and nothing is sent', async () => {
    const fake = new FakeFetch();
    const used = new Request(url, { method: 'POST', body: 'x' });
    await used.text();
    const wrong: (readonly [Parameters<typeof fetch>[0], RequestInit])[] = [
      [url, { method: 'CONNECT' }],
      [url, { method: 'TRACE' }],
      [url, { method: 'no method' }],
      [url, { body: 'x' }],
      [url, { method: 'POST', body: new ReadableStream() }],
      [used, {}],
    ];
    const lease = new Held();
    const send = fencedFetch(lease, { fetch: fake.fetch });
    for (const each of wrong) await expect(send(...each)).rejects.toMatchObject({ code: 'CONFIG', option: 'fetch' });
    const secret: (readonly [string, RequestInit])[] = [
      [url, { headers: { 'x\n': 'secret' } }],
      [url, { headers: { authorization: 'secret\nb' } }],
      ['http://user:secret@127.0.0.1:9/', {}],
    ];
    for (const each of secret) {
      const { itself } = await thrownBy(() => send(...each));
      expect(itself).toMatchObject({ code: 'CONFIG' });
      expect((itself as Error).message).not.toContain('secret');
      expect((itself as Error).cause).toBeUndefined();
    }
    await expect(fencedFetch(lease)('/a/path')).rejects.toMatchObject({ code: 'CONFIG', option: 'fetch' });
    expect(fake.requests).toEqual([]);
    expect(lease.asked).toBe(0);
  });

  test('what fetch can send is sent once, with its body as it is', async () => {
    const fake = new FakeFetch(async (request) => new Response(await request.text()));
    const send = fencedFetch(grant, { fetch: fake.fetch });
    const stream = (): ReadableStream => new Blob(['a stream']).stream();
    async function* parts(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('parts');
    }
    const sound: (readonly [Parameters<typeof fetch>[0], RequestInit, string])[] = [
      [url, { method: 'POST', body: 'a text' }, 'a text'],
      [url, { method: 'POST', body: stream(), duplex: 'half' }, 'a stream'],
      [url, { method: 'POST', body: parts(), duplex: 'half' }, 'parts'],
      [url, { method: 'PUT', body: new URLSearchParams({ a: '1' }) }, 'a=1'],
      [new Request(url, { method: 'POST', body: 'of a Request' }), {}, 'of a Request'],
      [new Request(url, { method: 'POST', body: stream(), duplex: 'half' }), {}, 'a stream'],
    ];
    for (const [input, init, text] of sound) expect(await (await send(input, init)).text()).toBe(text);
    const relative: string[] = [];
    const own: typeof fetch = async (input) => {
      relative.push(input as string);
      return new Response();
    };
    await fencedFetch(grant, { fetch: own })('/a/path');
    expect(relative).toEqual(['/a/path']);
  });

  test('is aborted with the lease’s signal, and with the caller’s, each with its own reason', async () => {
    const hang: FakeFetch['answer'] = ({ signal }) =>
      new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason as Error);
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    const reason = new RunCancelledError('pears', 'shutdown', grant.fencingToken);
    const fake = new FakeFetch(hang);
    const lease = new Held();
    const own = new AbortController();
    const send = fencedFetch(lease, { fetch: fake.fetch });
    const open = [
      send(url),
      send(url, { signal: new AbortController().signal }),
      send(new Request(url), { signal: null }),
    ];
    const inHand = [
      send(url, { signal: own.signal }),
      send(new Request(url, { signal: own.signal })),
      send(new Request(url), { signal: own.signal }),
    ];
    const mine = new Error('mine');
    own.abort(mine);
    for (const each of inHand) await expect(each).rejects.toBe(mine);
    await expect(send(url, { signal: own.signal })).rejects.toBe(mine);
    lease.controller.abort(reason);
    for (const each of open) await expect(each).rejects.toBe(reason);
  });

  test('a run that was cancelled still holds its lease: what it sends to finish up is not aborted', async () => {
    const fake = new FakeFetch(({ signal }) => (expect(signal.aborted).toBe(false), new Response('done')));
    const lease = new Held();
    lease.controller.abort(new RunCancelledError('pears', 'shutdown', grant.fencingToken));
    expect(await (await fencedFetch(lease, { fetch: fake.fetch })(url)).text()).toBe('done');
    lease.isHeld = false;
    await expect(fencedFetch(lease, { fetch: fake.fetch })(url)).rejects.toMatchObject({ code: 'LEASE_LOST' });
    expect(fake.requests).toHaveLength(1);
  });

  test('what cannot work is refused at once', () => {
    expect(() => fencedFetch(7 as never)).toThrow('CONFIG: grant');
    expect(() => fencedFetch(grant, { fetch: 'fetch' as never })).toThrow('CONFIG: fetch: is "fetch"');
    expect(() => fencedFetch(grant, { sign: {} as never })).toThrow('CONFIG: sign');
    expect(() => fencedFetch(grant, { timeout: 1 } as never)).toThrow('CONFIG: timeout: is not an option');
  });
});
