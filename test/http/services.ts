// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 hands on what they reject with, and Fastify always did.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { FenceUnavailableError, MemoryFence, StaleTokenError, TokenOutOfRangeError, type Grant } from '@leasehold/core';
import {
  expressFenceRoute,
  expressFencing,
  fastifyFenceRoute,
  fastifyFencing,
  fenced,
  fenceRoute,
  fencingErrors,
  type Verify,
} from '@leasehold/core/http';
import express, { type NextFunction, type Request as ExpressRequest, type Response as ExpressResponse } from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';

import { closed, opened, type Leftover } from '../support/leftovers.ts';

/**
 * The same service in each kind of server, all of it on 127.0.0.1:
 *
 *     POST /shops/:id/entries  enters the body in the log of shop/<id>, through a fence
 *     POST /shops/:id/ill/:how takes a grant as well, and then throws
 *     GET  /open               takes no grant
 *     *    /fence              the fence route
 */
export interface Service extends AsyncDisposable {
  readonly url: string;
  readonly ledger: Ledger;
}

export interface ServiceOptions {
  readonly verify?: Verify | undefined;
  readonly allowSeal?: boolean | undefined;
}

/** What the service is about: a log for each resource, behind a fence. */
export class Ledger {
  readonly fence: MemoryFence = new MemoryFence({ name: 'ledger' });
  /** The grants that a handler was called with. */
  readonly handled: Grant[] = [];

  async enter(grant: Grant, entry: string): Promise<number> {
    this.handled.push(grant);
    return this.fence.write(grant, (tx) => {
      const entries = [...((tx.get(grant.resource) ?? []) as readonly string[]), entry];
      tx.set(grant.resource, entries);
      return entries.length;
    });
  }

  entries(resource: string): readonly string[] {
    return (this.fence.values.get(resource) ?? []) as readonly string[];
  }

  /** Whatever can go wrong in a handler. */
  fail(grant: Grant, how = ''): never {
    const { resource, fencingToken } = grant;
    const highest = { fencingToken: fencingToken + 1, leaseId: 'other' };
    switch (decodeURIComponent(how)) {
      case 'silent':
        throw new FenceUnavailableError(resource, 'ledger', 'no answer from db-1.internal');
      case 'wrapped':
        throw new Error('orm', { cause: new StaleTokenError(resource, { fence: 'ledger', fencingToken, highest }) });
      // Of a grant that the handler holds itself: of something else, or of the same at another time.
      case 'stale elsewhere':
        throw new StaleTokenError('mail/outbox', { fence: 'outbox', fencingToken, highest });
      case 'stale before':
        throw new StaleTokenError(resource, { fence: 'outbox', fencingToken: fencingToken - 1, highest });
      case 'out of range elsewhere':
        throw new TokenOutOfRangeError('mail/outbox', fencingToken, 'outbox');
      case 'silent elsewhere':
        throw new FenceUnavailableError('mail/outbox', 'outbox', 'no answer');
      default:
        throw new Error('a bug of the application');
    }
  }
}

const shopOf = (id: string | undefined): string => `shop/${id}`;
const OWN_ERROR = 'the application’s own error page';

export type Kind = 'node:http' | 'Hono' | 'Express 5' | 'Fastify 5';
export const kinds: readonly Kind[] = ['node:http', 'Hono', 'Express 5', 'Fastify 5'];

export async function startService(kind: Kind, options: ServiceOptions = {}): Promise<Service> {
  const ledger = new Ledger();
  const start = { 'node:http': onNode, Hono: onHono, 'Express 5': onExpress, 'Fastify 5': onFastify }[kind];
  const { url, close } = await start(ledger, options);
  const leftover: Leftover = { what: `a service on ${kind}`, end: close };
  opened(leftover);
  return {
    url,
    ledger,
    async [Symbol.asyncDispose]() {
      closed(leftover);
      await close();
    },
  };
}

interface Running {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Serves `handle` on 127.0.0.1, as the servers do that speak `Request` and `Response` themselves. */
export async function listen(handle: (request: Request) => Response | Promise<Response>): Promise<Running> {
  return listenOn(
    createServer(async (req, res) => {
      const body = ['GET', 'HEAD'].includes(req.method ?? '') ? null : await text(req);
      const url = `http://${req.headers.host}${req.url}`;
      let response: Response;
      try {
        response = await handle(new Request(url, { method: req.method ?? '', headers: headersOf(req), body }));
      } catch {
        response = new Response(OWN_ERROR, { status: 500 });
      }
      res.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
    }),
  );
}

function headersOf(req: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < req.rawHeaders.length; at += 2) {
    headers.append(req.rawHeaders[at] as string, req.rawHeaders[at + 1] as string);
  }
  return headers;
}

export async function listenOn(server: Server): Promise<Running> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closing = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closing;
    },
  };
}

function routesOf(ledger: Ledger, { verify, allowSeal = false }: ServiceOptions) {
  const shop = (request: Request): string =>
    shopOf(decodeURIComponent(new URL(request.url).pathname.split('/')[2] ?? ''));
  return {
    enter: fenced({ resource: shop, verify }, async (request, grant) =>
      Response.json({ entries: await ledger.enter(grant, await request.text()) }),
    ),
    ill: fenced({ resource: shop, verify }, (request, grant) => ledger.fail(grant, request.url.split('/').at(-1))),
    fence: fenceRoute(ledger.fence, { verify, allowSeal: allowSeal ? () => true : undefined }),
  };
}

async function onNode(ledger: Ledger, options: ServiceOptions): Promise<Running> {
  const { enter, ill, fence } = routesOf(ledger, options);
  return listen((request) => {
    const { pathname } = new URL(request.url);
    if (pathname === '/fence') return fence(request);
    if (pathname === '/open') return new Response('open');
    if (pathname.endsWith('/entries')) return enter(request);
    return pathname.includes('/ill/') ? ill(request) : new Response('not found', { status: 404 });
  });
}

async function onHono(ledger: Ledger, options: ServiceOptions): Promise<Running> {
  const { enter, ill, fence } = routesOf(ledger, options);
  const app = new Hono();
  app.post('/shops/:id/entries', (c) => enter(c.req.raw));
  app.post('/shops/:id/ill/:how', (c) => ill(c.req.raw));
  app.get('/open', (c) => c.text('open'));
  app.all('/fence', (c) => fence(c.req.raw));
  app.onError((_error, c) => c.text(OWN_ERROR, 500));
  return listen((request) => app.fetch(request));
}

async function onExpress(ledger: Ledger, { verify, allowSeal = false }: ServiceOptions): Promise<Running> {
  const app = express();
  app.post(
    '/shops/:id/entries',
    expressFencing({ resource: (req: ExpressRequest<{ id: string }>) => shopOf(req.params.id), verify }),
    express.text(),
    async (req, res) => {
      res.json({ entries: await ledger.enter(req.grant, req.body as string) });
    },
  );
  app.post(
    '/shops/:id/ill/:how',
    expressFencing({ resource: (req: ExpressRequest<{ id: string; how: string }>) => shopOf(req.params.id), verify }),
    (req) => ledger.fail(req.grant, req.params.how),
  );
  app.get('/open', (_req, res) => void res.send('open'));
  app.all('/fence', expressFenceRoute(ledger.fence, { verify, allowSeal: allowSeal ? () => true : undefined }));
  app.use(fencingErrors());
  app.use((_error: unknown, _req: ExpressRequest, res: ExpressResponse, _next: NextFunction) => {
    res.status(500).send(OWN_ERROR);
  });
  return listenOn(createServer(app as RequestListener));
}

async function onFastify(ledger: Ledger, { verify, allowSeal = false }: ServiceOptions): Promise<Running> {
  const app = fastify();
  app.setErrorHandler((_error, _request, reply) => reply.code(500).send(OWN_ERROR));
  app.register(async (scope) => {
    scope.register(fastifyFencing, {
      resource: (request) => shopOf((request.params as { id: string }).id),
      verify,
    });
    scope.post('/shops/:id/entries', async (request) => ({
      entries: await ledger.enter(request.getDecorator<Grant>('grant'), request.body as string),
    }));
    scope.post('/shops/:id/ill/:how', async (request) =>
      ledger.fail(request.getDecorator<Grant>('grant'), (request.params as { how: string }).how),
    );
  });
  app.get('/open', async () => 'open');
  app.route({
    method: ['DELETE', 'GET', 'POST', 'PUT'],
    url: '/fence',
    handler: fastifyFenceRoute(ledger.fence, { verify, allowSeal: allowSeal ? () => true : undefined }),
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    url,
    async close() {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}
