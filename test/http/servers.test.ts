import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Grant } from '@leasehold/core';
import { fencingHeaders, signer, verifier } from '@leasehold/core/http';
import { describe, expect, test } from 'vitest';

import { kinds, startService, type Service } from './services.ts';

const keys = { k1: 'a secret of at least thirty-two bytes', k2: 'another secret of thirty-two bytes or more' };
const sign = signer({ keys, current: 'k1' });
const verify = verifier({ keys });

let made = 0;

/** A grant later than all before it. */
function newGrant(more: Partial<Grant> = {}): Grant {
  made++;
  return { resource: 'shop/7', fencingToken: Date.now() * 1000 + made, leaseId: `lease-${made}`, ...more };
}

type Sent = Readonly<Record<string, string | string[] | undefined>>;

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** Over node:http, which sends a header as often as it is given. */
async function send(service: Service, path: string, headers: Sent, body = 'entry', method = 'POST'): Promise<Answered> {
  const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${service.url}${path}`,
      {
        method,
        headers: { 'Content-Type': 'text/plain', ...given },
        agent: false,
      },
      async (response) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: await text(response) });
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

const enter = (service: Service, headers: Sent, body?: string): Promise<Answered> =>
  send(service, '/shops/7/entries', headers, body);

/** A refusal of ours: the status, a problem document, and a service that did nothing. */
function expectProblem(service: Service, answer: Answered, status: number, code: string, reason?: string): void {
  expect(answer).toMatchObject({ status, headers: { 'cache-control': 'no-store' } });
  expect(answer.headers['content-type']).toMatch(/^application\/problem\+json\b/);
  expect(answer.headers['fencing-error']).toBe(reason === undefined ? code : `${code};reason=${reason}`);
  expect(JSON.parse(answer.body)).toMatchObject({ type: 'about:blank', status, code });
  expect(service.ledger.handled).toEqual([]);
  expect([...service.ledger.fence.values]).toEqual([]);
}

describe.each(kinds)('on %s', (kind) => {
  test('a current grant gets in: the handler runs once and writes through its fence', async () => {
    await using service = await startService(kind);
    for (const id of ['7', 'pears & Äpfel, 50 %']) {
      const grant = newGrant({ resource: `shop/${id}` });
      const path = `/shops/${encodeURIComponent(id)}/entries`;
      const answer = await send(service, path, fencingHeaders(grant));
      expect(answer).toMatchObject({ status: 200, body: '{"entries":1}' });
      expect(service.ledger.handled).toEqual([grant]);
      expect(service.ledger.entries(grant.resource)).toEqual(['entry']);
      expect(await service.ledger.fence.highest(grant.resource)).toMatchObject({ leaseId: grant.leaseId });
      service.ledger.handled.length = 0;
    }
  });

  test('without any of the headers: 428', async () => {
    await using service = await startService(kind);
    expectProblem(service, await enter(service, {}), 428, 'FENCING_HEADER', 'missing');
    expect(await send(service, '/open', {}, '', 'GET')).toMatchObject({ status: 200, body: 'open' });
  });

  test('with some of the headers, or malformed ones: 400', async () => {
    await using service = await startService(kind);
    const headers = fencingHeaders(newGrant());
    for (const name of Object.keys(headers)) {
      const answer = await enter(service, { ...headers, [name]: undefined });
      expectProblem(service, answer, 400, 'FENCING_HEADER', 'incomplete');
    }
    const malformed: Readonly<Record<string, readonly string[]>> = {
      'Fencing-Token': [
        '0',
        '-1',
        '+1',
        '05',
        '1e3',
        'NaN',
        '0x10',
        '',
        '9007199254740992',
        '9'.repeat(400),
        '5 6',
        '5;',
      ],
      'Fencing-Resource': [
        'shop/7',
        'shop%2f7',
        '%73hop%2F7',
        'shop%2F7%',
        '%FF',
        'shop%2F%00',
        '7',
        '',
        'x'.repeat(4000),
      ],
      'Fencing-Lease': ['', 'a b', 'a%0Ab', '%', 'x'.repeat(1000)],
    };
    for (const [name, values] of Object.entries(malformed)) {
      for (const value of values) {
        const answer = await enter(service, { ...headers, [name]: value });
        expectProblem(service, answer, 400, 'FENCING_HEADER', 'malformed');
      }
    }
  });

  test('a header that is there twice is refused and not merged, however it came', async () => {
    await using service = await startService(kind);
    const headers = fencingHeaders(newGrant());
    for (const [name, value] of Object.entries(headers)) {
      for (const twice of [
        [value, value],
        [value, '1'],
        ['1', value],
      ]) {
        const answer = await enter(service, { ...headers, [name]: twice });
        expectProblem(service, answer, 400, 'FENCING_HEADER', 'duplicated');
      }
      // As a proxy joins them, and in another case.
      const joined = await enter(service, { ...headers, [name]: `${value}, ${value}` });
      expectProblem(service, joined, 400, 'FENCING_HEADER', 'duplicated');
      const cased = await enter(service, { ...headers, [name.toUpperCase()]: [value, value], [name]: undefined });
      expectProblem(service, cased, 400, 'FENCING_HEADER', 'duplicated');
    }
  });

  test('bytes that are no ASCII, and headers within headers, get nowhere', async () => {
    await using service = await startService(kind);
    const { 'Fencing-Token': token = '', 'Fencing-Lease': lease = '' } = fencingHeaders(newGrant());
    const values = [
      `Fencing-Resource: shop%2F7\r\nFencing-Token: ${token}\u00b9`,
      `Fencing-Resource: shop/\u00e9\r\nFencing-Token: ${token}`,
      `Fencing-Resource: shop%2F7\r\nFencing-Token: \uff15`,
      `Fencing-Resource: shop%2F7\u0000\r\nFencing-Token: ${token}`,
      `Fencing-Resource: shop%2F7\r\n Fencing-Token: 1\r\nFencing-Token: ${token}`,
      `Fencing-Resource: shop%2F7\r\nFencing-Token: ${token}\r\nfencing-token: ${token}`,
    ];
    for (const fields of values) {
      const status = await sendRaw(service, `${fields}\r\nFencing-Lease: ${lease}`);
      expect(status).toBe(400);
    }
    expect(
      await sendRaw(service, `Fencing-Resource: shop%2F7\r\nFencing-Token: ${token}\r\nFencing-Lease: ${lease}`),
    ).toBe(200);
    expect(service.ledger.handled).toHaveLength(1);
  });

  test('the route names the resource: a grant of another one is 400', async () => {
    await using service = await startService(kind);
    for (const resource of ['shop/8', 'shop/77', 'Shop/7', 'other/7', 'shop/7 ', 'shop/7/x']) {
      const answer = await enter(service, fencingHeaders(newGrant({ resource })));
      expectProblem(service, answer, 400, 'FENCING_HEADER', 'other-resource');
    }
    expect(await service.ledger.fence.highest('shop/8')).toBeNull();
  });

  test('a token far ahead is 400, and shuts out nobody', async () => {
    await using service = await startService(kind);
    const ahead = newGrant({ fencingToken: Number.MAX_SAFE_INTEGER });
    const answer = await enter(service, fencingHeaders(ahead));
    expect(answer).toMatchObject({ status: 400, headers: { 'fencing-error': 'TOKEN_OUT_OF_RANGE' } });
    expect(service.ledger.entries('shop/7')).toEqual([]);
    expect(await service.ledger.fence.highest('shop/7')).toBeNull();
    expect(await enter(service, fencingHeaders(newGrant()))).toMatchObject({ status: 200 });
  });

  test('a stale grant is 412, and is told the highest', async () => {
    await using service = await startService(kind);
    const [earlier, later] = [newGrant(), newGrant()];
    expect(await enter(service, fencingHeaders(later), 'later')).toMatchObject({ status: 200 });
    const twin = { ...later, leaseId: 'twin' };
    for (const stale of [earlier, twin]) {
      const answer = await enter(service, fencingHeaders(stale), 'too late');
      expect(answer).toMatchObject({
        status: 412,
        headers: {
          'fencing-highest': String(later.fencingToken),
          'fencing-highest-lease': later.leaseId,
          'fencing-error': 'STALE_TOKEN',
        },
      });
    }
    expect(service.ledger.entries('shop/7')).toEqual(['later']);
  });

  test('where signatures are asked for, a grant without one of it is 401', async () => {
    await using service = await startService(kind, { verify });
    const grant = newGrant();
    const signed = fencingHeaders(grant, { sign });
    const stranger = signer({ keys: { k1: 'x'.repeat(32) }, current: 'k1' });
    const wrong: Sent[] = [
      fencingHeaders(grant),
      fencingHeaders(grant, { sign: stranger }),
      { ...signed, 'Fencing-Lease': 'other' },
      { ...signed, 'Fencing-Token': String(grant.fencingToken + 1) },
      { ...signed, 'Fencing-Signature': signed['Fencing-Signature']?.replace('k1', 'k9') },
      { ...signed, 'Fencing-Signature': '' },
    ];
    for (const headers of wrong) {
      const answer = await enter(service, headers);
      expectProblem(service, answer, 401, 'FENCING_HEADER', 'signature');
      expect(answer.headers['www-authenticate']).toBe('Fencing-Signature');
    }
    const twice = await enter(service, { ...signed, 'Fencing-Signature': [sign(grant), sign(grant)] });
    expectProblem(service, twice, 400, 'FENCING_HEADER', 'duplicated');
    expect(await enter(service, signed)).toMatchObject({ status: 200 });
    const other = newGrant();
    const rotated = fencingHeaders(other, { sign: signer({ keys, current: 'k2' }) });
    expect(await enter(service, rotated)).toMatchObject({ status: 200 });
  });

  test('a fence that gave no answer is 503, and a refusal is found in what wraps it', async () => {
    await using service = await startService(kind);
    const grant = newGrant();
    const silent = await send(service, '/shops/7/ill/silent', fencingHeaders(grant));
    expect(silent).toMatchObject({ status: 503, headers: { 'fencing-error': 'FENCE_UNAVAILABLE' } });
    expect(silent.body).not.toContain('db-1.internal');
    const wrapped = await send(service, '/shops/7/ill/wrapped', fencingHeaders(grant));
    expect(wrapped).toMatchObject({
      status: 412,
      headers: { 'fencing-highest': String(grant.fencingToken + 1), 'fencing-highest-lease': 'other' },
    });
  });

  test('errors that are not ours, or not about this grant, are the application’s', async () => {
    await using service = await startService(kind);
    const ways = ['bug', 'stale elsewhere', 'stale before', 'out of range elsewhere', 'silent elsewhere'];
    for (const how of ways) {
      const answer = await send(service, `/shops/7/ill/${encodeURIComponent(how)}`, fencingHeaders(newGrant()));
      expect(answer).toMatchObject({ status: 500, body: 'the application’s own error page' });
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('fencing'))).toEqual([]);
    }
    const missing = await send(service, '/nowhere', {});
    expect(missing.status).toBe(404);
  });

  test('the fence route activates, tells the highest, and seals only if it may', async () => {
    await using service = await startService(kind, { verify });
    const grant = newGrant();
    const fence = (method: string, headers: Sent): Promise<Answered> => send(service, '/fence', headers, '', method);
    expect(await fence('GET', { 'Fencing-Resource': 'shop%2F7' })).toMatchObject({
      status: 204,
      headers: { 'fencing-enforcing': '1' },
    });
    const signed = fencingHeaders(grant, { sign });
    expect((await fence('POST', {})).status).toBe(428);
    expect((await fence('POST', { ...signed, 'Fencing-Token': '05' })).status).toBe(400);
    expect((await fence('POST', { ...signed, 'Fencing-Token': [sign(grant), '5'] })).status).toBe(400);
    expect((await fence('POST', fencingHeaders(grant))).status).toBe(401);
    expect(await service.ledger.fence.highest('shop/7')).toBeNull();
    expect(await fence('POST', signed)).toMatchObject({ status: 204, body: '' });
    const told = { 'fencing-highest': String(grant.fencingToken), 'fencing-highest-lease': grant.leaseId };
    expect(await fence('GET', { 'Fencing-Resource': 'shop%2F7' })).toMatchObject({ status: 204, headers: told });
    const earlier = fencingHeaders({ ...grant, fencingToken: 1 }, { sign });
    expect(await fence('POST', earlier)).toMatchObject({ status: 412, headers: told });
    for (const method of ['PUT', 'DELETE']) {
      const answer = await fence(method, { 'Fencing-Resource': 'shop%2F7', 'Fencing-Token': '7' });
      expect(answer).toMatchObject({ status: 405, headers: { allow: 'GET, POST' } });
    }
  });
});

/** The status of a request with exactly these bytes. */
async function sendRaw(service: Service, fields: string): Promise<number> {
  const { hostname, port } = new URL(service.url);
  const head =
    'POST /shops/7/entries HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 5';
  const socket = connect(Number(port), hostname);
  socket.end(Buffer.from(`${head}\r\n${fields}\r\n\r\nentry`, fields.includes('\uff15') ? 'utf8' : 'latin1'));
  const answer = await text(socket);
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
}
