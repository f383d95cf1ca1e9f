// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 hands on what they reject with, and Fastify always did.
import { createServer, type RequestListener } from 'node:http';
import { FencingHeaderError, MemoryFence, type Grant } from '@leasehold/core';
import { expressFenceRoute, expressFencing, fastifyFencing, fencingErrors, fencingHeaders } from '@leasehold/core/http';
import express from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { describe, expect, test } from 'vitest';

import { listenOn } from './services.ts';

const grant: Grant = { resource: 'shop/7', fencingToken: Date.now() * 1000, leaseId: 'a1b2' };
const headers = fencingHeaders(grant);
const fencing = { resource: 'shop/7' };
const lowered = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
const granted = (request: { getDecorator<T>(name: string): T }): string => request.getDecorator<Grant>('grant').leaseId;

/** The status of a request with a grant, and of one without. */
async function statuses(
  app: FastifyInstance,
  url: string,
  method: 'GET' | 'HEAD' | 'POST' = 'POST',
): Promise<number[]> {
  const withGrant = await app.inject({ method, url, headers });
  const without = await app.inject({ method, url });
  return [withGrant.statusCode, without.statusCode];
}

describe('the Fastify plug-in', () => {
  test('fences every route of its scope, also those that were there before it, and HEAD; and no other', async () => {
    await using app = fastify();
    app.post('/outside', async () => 'outside');
    app.register(async (scope) => {
      scope.post('/before', async (request) => granted(request));
      scope.register(fastifyFencing, fencing);
      scope.get('/after', async (request) => granted(request));
      scope.register(async (inner) => void inner.post('/inside', async (request) => granted(request)), {
        prefix: '/in',
      });
      scope.register(async (inner) => void inner.get('/', async (request) => granted(request)), { prefix: '/root' });
    });
    app.post('/later', async () => 'later');
    expect((await app.inject({ method: 'POST', url: '/before', headers })).body).toBe('a1b2');
    for (const url of ['/before', '/in/inside']) expect(await statuses(app, url)).toEqual([200, 428]);
    for (const url of ['/after', '/root', '/root/']) {
      expect(await statuses(app, url, 'GET')).toEqual([200, 428]);
      expect(await statuses(app, url, 'HEAD')).toEqual([200, 428]);
    }
    for (const url of ['/outside', '/later']) expect(await statuses(app, url)).toEqual([200, 200]);
    for (const url of ['/nowhere', '/in/nowhere']) expect(await statuses(app, url)).toEqual([404, 404]);
  });

  test('on the application itself it fences all routes, and a missing page is missing still', async () => {
    await using app = fastify();
    app.register(fastifyFencing, fencing);
    app.post('/entries', async (request) => granted(request));
    expect(await statuses(app, '/entries')).toEqual([200, 428]);
    expect(await statuses(app, '/nowhere')).toEqual([404, 404]);
  });

  test('in two scopes, and one within the other, each names its own resource', async () => {
    await using app = fastify();
    for (const id of ['7', '8']) {
      app.register(async (scope) => {
        scope.register(fastifyFencing, { resource: () => `shop/${id}` });
        scope.post(`/${id}`, async (request) => granted(request));
        scope.register(async (inner) => {
          inner.register(fastifyFencing, { resource: async () => `shop/${id}` });
          inner.post(`/${id}/inner`, async (request) => granted(request));
        });
      });
    }
    for (const url of ['/7', '/7/inner']) expect(await statuses(app, url)).toEqual([200, 428]);
    for (const url of ['/8', '/8/inner']) expect(await statuses(app, url)).toEqual([400, 428]);
  });

  test('touches no error but ours, wherever the application sets its error handler', async () => {
    for (const place of ['around', 'same scope', 'none']) {
      await using app = fastify();
      const seen: string[] = [];
      app.addHook('onError', async (_request, _reply, error) => void seen.push(error.message));
      const own = (instance: FastifyInstance): unknown =>
        instance.setErrorHandler((error, _request, reply) => reply.code(500).send(`own: ${(error as Error).message}`));
      if (place === 'around') own(app);
      app.register(async (scope) => {
        if (place === 'same scope') own(scope);
        scope.register(fastifyFencing, fencing);
        scope.post('/bug', async () => {
          throw new Error('a bug');
        });
      });
      expect(await statuses(app, '/bug')).toEqual([500, 428]);
      const { body } = await app.inject({ method: 'POST', url: '/bug', headers });
      expect(body).toBe(
        place === 'none' ? '{"statusCode":500,"error":"Internal Server Error","message":"a bug"}' : 'own: a bug',
      );
      expect(seen.filter((message) => message === 'a bug')).toHaveLength(2);
      expect(seen.filter((message) => message.startsWith('FENCING_HEADER'))).toHaveLength(1);
    }
  });

  test('what comes before it in the application comes before it still: who is not known is not told about grants', async () => {
    await using app = fastify();
    app.addHook('onRequest', async (_request, reply) => reply.code(403).send('who are you?'));
    app.register(async (scope) => {
      scope.register(fastifyFencing, fencing);
      scope.post('/entries', async (request) => granted(request));
    });
    expect(await statuses(app, '/entries')).toEqual([403, 403]);
  });

  test('a body is not read for who has no grant', async () => {
    await using app = fastify();
    let parsed = 0;
    app.addContentTypeParser('text/x-own', { parseAs: 'string' }, (_request, body, done) => {
      parsed++;
      done(null, body);
    });
    app.register(async (scope) => {
      scope.register(fastifyFencing, fencing);
      scope.post('/entries', async (request) => granted(request));
    });
    const send = (more: object) =>
      app.inject({ method: 'POST', url: '/entries', payload: 'x', headers: { 'content-type': 'text/x-own', ...more } });
    expect([(await send({})).statusCode, parsed]).toEqual([428, 0]);
    expect([(await send(headers)).statusCode, parsed]).toEqual([200, 1]);
  });

  test('reads what was sent, not what somebody on the way made of it', async () => {
    await using app = fastify();
    app.addHook('onRequest', async (request) => void Object.assign(request.raw.headers, lowered));
    app.register(async (scope) => {
      scope.register(fastifyFencing, fencing);
      scope.post('/entries', async (request) => granted(request));
    });
    expect(await statuses(app, '/entries')).toEqual([200, 428]);
  });

  test('options that cannot work keep the application from starting', async () => {
    const app = fastify();
    app.register(fastifyFencing, { resource: 7 } as never);
    await expect(app.ready()).rejects.toThrow('CONFIG: resource: is 7');
    await app.close();
  });
});

describe('the Express middleware', () => {
  test('serves plain node:http as well, and what has begun to answer is left alone', async () => {
    const ledger = new MemoryFence();
    const read = expressFencing(fencing);
    const route = expressFenceRoute(ledger, fencing);
    const answer = fencingErrors();
    const passed: unknown[] = [];
    const server = await listenOn(
      createServer((req, res) => {
        const failed = (error?: unknown): void => {
          if (error !== undefined) answer(error, req, res, (rest) => void passed.push(rest));
        };
        if (req.url === '/fence') return void route(req, res, failed);
        void read(req, res, (error) => {
          if (error !== undefined) return failed(error);
          if (req.url === '/begun') {
            res.write('begun');
            failed(new FencingHeaderError('shop/7', 'missing', 'Fencing-Token', 'came too late'));
          }
          res.end((req as unknown as { grant: Grant }).grant.leaseId);
        });
      }),
    );
    try {
      const send = (path: string, more: Record<string, string> = headers): Promise<Response> =>
        fetch(`${server.url}${path}`, { method: 'POST', headers: more });
      expect((await send('/fence')).status).toBe(204);
      expect(await ledger.highest('shop/7')).toMatchObject({ leaseId: 'a1b2' });
      expect(await (await send('/entries')).text()).toBe('a1b2');
      expect((await send('/entries', {})).status).toBe(428);
      expect(await (await send('/begun')).text()).toBe('beguna1b2');
      expect(passed).toMatchObject([{ code: 'FENCING_HEADER' }]);
    } finally {
      await server.close();
    }
  });

  test('reads what was sent, not what somebody on the way made of it', async () => {
    const app = express();
    app.use((req, _res, next) => {
      Object.assign(req.headers, lowered);
      next();
    });
    app.post('/entries', expressFencing(fencing), (req, res) => void res.send(req.grant.leaseId));
    app.all('/fence', expressFenceRoute(new MemoryFence()));
    app.use(fencingErrors());
    const server = await listenOn(createServer(app as RequestListener));
    try {
      for (const [path, status] of [
        ['/entries', 200],
        ['/fence', 204],
      ] as const) {
        const post = (more: Record<string, string>): Promise<Response> =>
          fetch(`${server.url}${path}`, { method: 'POST', headers: more });
        expect([(await post(headers)).status, (await post({})).status]).toEqual([status, 428]);
      }
    } finally {
      await server.close();
    }
  });

  test('without fencingErrors a refusal is a refusal still, and an error of naming is the application’s', async () => {
    const app = express();
    app.set('env', 'test');
    let ran = 0;
    app.post('/entries', expressFencing(fencing), (_req, res) => void res.send(String(++ran)));
    app.post('/lost', expressFencing({ resource: () => Promise.reject(new Error('no such shop')) }), (_req, res) => {
      res.send(String(++ran));
    });
    const noise: unknown[] = [];
    app.use((error: unknown, _req: unknown, _res: unknown, next: (error: unknown) => void) => {
      noise.push(error);
      next(error);
    });
    const server = await listenOn(createServer(app as RequestListener));
    try {
      const post = (path: string): Promise<Response> => fetch(`${server.url}${path}`, { method: 'POST' });
      expect((await post('/entries')).status).toBe(428);
      expect((await post('/lost')).status).toBe(500);
      expect(noise).toMatchObject([{ code: 'FENCING_HEADER' }, { message: 'no such shop' }]);
      expect(ran).toBe(0);
    } finally {
      await server.close();
    }
  });
});
