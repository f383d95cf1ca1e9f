import type { Fence, Grant } from '../fence/fence.ts';
import { checkFenced, grantOfRequest, type FencedOptions } from './fenced.ts';
import type { HeadersLike } from './parser.ts';
import { problemOf, type Answer } from './problem.ts';
import { fenceAnswers, type FenceRouteOptions } from './route.ts';

/** What we need of a request of Fastify 5. */
export interface FastifyRequest {
  readonly method: string;
  readonly url: string;
  readonly params: unknown;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly raw: { readonly rawHeaders: readonly string[] };
  readonly is404: boolean;
}

export interface FastifyReply {
  code(status: number): unknown;
  headers(values: Readonly<Record<string, string>>): unknown;
  send(payload?: string): unknown;
}

export interface FastifyScope {
  hasRequestDecorator(name: string): boolean;
  decorateRequest(name: string, value: null): unknown;
  addHook(name: 'onRequest', hook: (request: FastifyRequest, reply: FastifyReply) => Promise<void>): unknown;
  setErrorHandler(handler: (error: unknown, request: FastifyRequest, reply: FastifyReply) => unknown): unknown;
}

export type FastifyFencing = (scope: FastifyScope, options: FencedOptions<FastifyRequest>) => Promise<void>;

async function register(scope: FastifyScope, options: FencedOptions<FastifyRequest>): Promise<void> {
  checkFenced(options);
  if (!scope.hasRequestDecorator('grant')) scope.decorateRequest('grant', null);
  scope.addHook('onRequest', async (request) => {
    // Of the not-found handler: there is no route that could name a resource.
    if (request.is404) return;
    (request as { grant?: Grant }).grant = await grantOfRequest(options, request, request.raw.rawHeaders);
  });
  scope.setErrorHandler((error, request, reply) => {
    const answer = problemOf(error, (request as { grant?: Grant | null }).grant ?? undefined);
    // Fastify gives what an error handler throws to the one that was set before it, here or around this scope.
    if (answer === undefined) throw error;
    return send(reply, answer);
  });
}

/**
 * Plug-in for Fastify 5: every route of the scope it is registered in takes a grant, which is `request.grant` (with types:
 * `request.getDecorator<Grant>('grant')`), for the handler to give to the service's own fence. Answers what `fenced` answers;
 * every other error goes on to the error handlers of the application. Register it in a scope of its own, and set no other
 * error handler there:
 *
 *     app.register(async (scope) => {
 *       scope.register(fastifyFencing, { resource: (request) => … });
 *       scope.post(…);
 *     });
 *
 * Rejects with `ConfigError` for an option that cannot work.
 */
export const fastifyFencing: FastifyFencing = Object.assign(register, {
  // Hooks, decorator and error handler are for the scope that registers it, not for one inside.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'leasehold-fencing',
  [Symbol.for('plugin-meta')]: { name: 'leasehold-fencing', fastify: '5.x' },
});

/** `fenceRoute` for Fastify 5: `app.route({ method: ['GET', 'POST', 'PUT'], url: '/fence', handler: fastifyFenceRoute(fence) })`. */
export function fastifyFenceRoute(
  fence: Fence,
  options: FenceRouteOptions<FastifyRequest> = {},
): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown> {
  const answer = fenceAnswers(fence, options);
  return async (request, reply) => {
    const headers: HeadersLike = request.raw.rawHeaders;
    return send(reply, await answer({ method: request.method, headers, request }));
  };
}

function send(reply: FastifyReply, { status, headers, body }: Answer): unknown {
  reply.code(status);
  reply.headers(headers);
  return reply.send(body);
}
