import type { Grant } from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { checkHandler, checkRouteResource, checkVerify } from './checks.ts';
import { parseFencing, type HeadersLike } from './parser.ts';
import { problemOf, responseOf } from './problem.ts';
import type { Verify } from './signature.ts';

export interface FencedOptions<Req = Request> {
  /**
   * The qualified name that the route is for: of its path, say, or of a session. Never of a header: a client could then
   * bring a good grant of one resource to the data of another.
   */
  readonly resource: string | ((request: Req) => string | Promise<string>);
  /** Requires a `Fencing-Signature`. See `verifier`. @default none */
  readonly verify?: Verify | undefined;
}

/** Throws `ConfigError` for options that cannot work. */
export function checkFenced(options: FencedOptions<never>): void {
  refuseUnknown(options, ['resource', 'verify']);
  checkRouteResource(options.resource);
  checkVerify(options.verify);
}

/** The grant of a request to a route. */
export async function grantOfRequest<Req>(
  options: FencedOptions<Req>,
  request: Req,
  headers: HeadersLike,
): Promise<Grant> {
  const { resource, verify } = options;
  const named = typeof resource === 'string' ? resource : await resource(request);
  return parseFencing(headers, { resource: named, verify });
}

/**
 * A route that takes a grant, for every server that takes `(request: Request) => Response`: Hono, Bun, Deno, Next.js.
 * `handler` hands the grant to the service's own fence: `ledger.write(grant, …)`. A look at the token in front of the data
 * would guard nothing: between the look and the write a later owner may come, and the late write gets in.
 *
 * Answers 428, 400 and 401 without calling the handler (see `parseFencing`); 412 with `Fencing-Highest`, 400 and 503 when
 * the handler throws `StaleTokenError`, `TokenOutOfRangeError` or `FenceUnavailableError` for this grant, also as a `cause`.
 * Every other error is thrown.
 *
 * Throws `ConfigError` for an option that cannot work.
 */
export function fenced(
  options: FencedOptions,
  handler: (request: Request, grant: Grant) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  checkFenced(options);
  checkHandler(handler);
  return async (request) => {
    let grant: Grant | undefined;
    try {
      grant = await grantOfRequest(options, request, request.headers);
      return await handler(request, grant);
    } catch (error) {
      const answer = problemOf(error, grant);
      if (answer === undefined) throw error;
      return responseOf(answer);
    }
  };
}
