import { createServer } from 'node:http';
import { LeaseLostError, LeaseManager, MemoryFence, MemoryLeaseStore, type Lease } from '@leasehold/core';
import { fencedFetch, fencingHeaders, httpFence, signer, verifier, type HttpFenceOptions } from '@leasehold/core/http';
import { describe, expect, test } from 'vitest';

import { kinds, listen, listenOn, startService } from './services.ts';

const keys = { k1: 'a secret of at least thirty-two bytes' };
const sign = signer({ keys, current: 'k1' });
const verify = verifier({ keys });
const entries = '/shops/7/entries';
const post = (entry: string): RequestInit => ({
  method: 'POST',
  body: entry,
  headers: { 'Content-Type': 'text/plain' },
});

/** A manager with a store of its own: two of them are one store before and after it lost its data. */
function newManager(): LeaseManager {
  return new LeaseManager({ store: new MemoryLeaseStore({ prefix: 'shop' }) });
}

/** A later grant was admitted somewhere, and the lease hears of it. */
async function overtake(lease: Lease): Promise<void> {
  const fence = new MemoryFence();
  await fence.activate({ ...lease.grant, fencingToken: lease.fencingToken + 1 });
  await fence.activate(lease).catch(() => {});
}

function shopFence(url: string, more: Partial<HttpFenceOptions> = {}) {
  return httpFence({ url: `${url}/fence`, name: 'shop', sign, ...more });
}

describe.each(kinds)('a client of a service on %s', (kind) => {
  test('that is overtaken is refused, and its run ends as lost', async () => {
    await using service = await startService(kind, { verify });
    await using first = newManager();
    await using second = newManager();
    const [shop, again] = [shopFence(service.url), shopFence(service.url)];
    let lease: Lease | undefined;
    const refusals: unknown[] = [];
    const overtaken = first.run('7', { fences: [shop] }, async (its) => {
      lease = its;
      expect(shop.enforcing).toBe(true);
      expect((await shop.write(its, (send) => send(entries, post('first')))).status).toBe(200);
      await second.run('7', { fences: [again], detached: true }, async (successor) => {
        // The successor has written nothing yet. That it has begun is enough.
        for (let tries = 0; tries < 2; tries++) {
          refusals.push(await shop.write(its, (send) => send(entries, post('late'))).catch((error: unknown) => error));
        }
        expect(its.signal.aborted).toBe(true);
        await again.write(successor, (send) => send(entries, post('second')));
      });
      return 'finished';
    });
    const error: unknown = await overtaken.catch((reason: unknown) => reason);
    expect(refusals).toMatchObject([{ code: 'STALE_TOKEN', fence: 'shop' }, { code: 'LEASE_LOST' }]);
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error).toMatchObject({ code: 'LEASE_LOST', reason: 'fenced', settled: { value: 'finished' } });
    expect((error as LeaseLostError).cause).toBe(refusals[0]);
    expect(lease?.isHeld()).toBe(false);
    expect(service.ledger.entries('shop/7')).toEqual(['first', 'second']);
  });

  test('whose store was emptied and is behind is refused once and then let in, with nobody’s help', async () => {
    await using service = await startService(kind, { verify });
    const remembered = { resource: 'shop/7', fencingToken: (Date.now() + 3_600_000) * 1000, leaseId: 'of-yesterday' };
    await service.ledger.fence.activate(remembered);
    await using leases = newManager();
    const requests: string[] = [];
    const counting: typeof fetch = (input, init) => {
      requests.push(`${init?.method} ${new URL(input instanceof Request ? input.url : input).pathname}`);
      return fetch(input, init);
    };
    const shop = shopFence(service.url, { fetch: counting });
    const token = await leases.run('7', { fences: [shop] }, async (lease) => {
      await shop.write(lease, (send) => send(entries, post('in')));
      return lease.fencingToken;
    });
    expect(token).toBe(remembered.fencingToken + 1);
    expect(requests).toEqual(['POST /fence', 'POST /fence', `POST ${entries}`]);
    expect(service.ledger.entries('shop/7')).toEqual(['in']);
  });
});

describe('redirects', () => {
  test('neither grant nor signature goes to where an answer points, and no write comes again as something else', async () => {
    const seen: string[] = [];
    const elsewhere = await listen((request) => {
      seen.push(request.headers.get('Fencing-Token') ?? 'nothing');
      return new Response('elsewhere');
    });
    let status = 307;
    const methods: string[] = [];
    const service = await listen((request) => {
      methods.push(request.method);
      return new Response(null, { status, headers: { Location: `${elsewhere.url}/`, 'Fencing-Enforcing': '1' } });
    });
    try {
      const grant = { resource: 'shop/7', fencingToken: Date.now() * 1000, leaseId: 'a1b2' };
      const send = fencedFetch(grant, { sign });
      for (status of [301, 302, 303, 307, 308]) {
        for (const input of [service.url, new Request(service.url)]) {
          const response = await send(input, { method: 'POST', body: 'entry' });
          expect([response.status, response.headers.get('Location')]).toEqual([status, `${elsewhere.url}/`]);
        }
        await expect(send(service.url, { redirect: 'error' })).rejects.toThrow(TypeError);
        const fence = shopFence(service.url);
        await expect(fence.activate(grant)).rejects.toThrow(`answered ${status}`);
        await expect(fence.highest(grant.resource)).rejects.toThrow(`answered ${status}`);
        expect((await fence.write(grant, (inside) => inside('/entries', post('entry')))).status).toBe(status);
      }
      expect(seen).toEqual([]);
      expect(methods).toHaveLength(5 * 6);
      // What fetch would do by itself.
      status = 307;
      await fetch(service.url, { method: 'POST', headers: fencingHeaders(grant) });
      expect(seen).toEqual([String(grant.fencingToken)]);
    } finally {
      await service.close();
      await elsewhere.close();
    }
  });
});

describe('a request that is under way', () => {
  test('ends with its lease', async () => {
    let arrived = (): void => {};
    const arrival = new Promise<void>((resolve) => (arrived = resolve));
    const service = await listen(() => (arrived(), new Promise<Response>(() => {})));
    try {
      await using leases = newManager();
      let requested: unknown;
      const lost = leases.run('7', async (lease) => {
        const request = fencedFetch(lease)(service.url, { method: 'POST' });
        await arrival;
        await overtake(lease);
        requested = await request.catch((error: unknown) => error);
      });
      await expect(lost).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
      expect(requested).toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
    } finally {
      await service.close();
    }
  });

  test('ends with its lease also when its answer has begun, whatever of it is kept', async () => {
    const server = await listenOn(createServer((_req, res) => void res.writeHead(200).write('begun')));
    try {
      await using leases = newManager();
      const lost = leases.run('7', async (lease) => {
        const reader = (await fencedFetch(lease)(server.url)).body?.getReader();
        expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('begun');
        const more = reader?.read().catch((error: unknown) => error);
        await overtake(lease);
        ended = await more;
      });
      let ended: unknown;
      await expect(lost).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
      expect(ended).toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
    } finally {
      await server.close();
    }
  });

  test('ends with its run, which may still send what it needs to finish up', async () => {
    await using service = await startService('Hono');
    let arrived = (): void => {};
    const arrival = new Promise<void>((resolve) => (arrived = resolve));
    const silent = await listen(() => (arrived(), new Promise<Response>(() => {})));
    try {
      await using leases = newManager();
      const stop = new AbortController();
      const run = leases.run('7', { signal: stop.signal }, async (lease) => {
        const request = fencedFetch(lease)(silent.url).catch((error: unknown) => error);
        await arrival;
        stop.abort();
        expect(await request).toMatchObject({ code: 'RUN_CANCELLED', reason: 'caller' });
        const response = await fencedFetch(lease)(`${service.url}${entries}`, post('finished up'));
        return response.status;
      });
      expect(await run).toBe(200);
      expect(service.ledger.entries('shop/7')).toEqual(['finished up']);
    } finally {
      await silent.close();
    }
  });
});
