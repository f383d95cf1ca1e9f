import type { Fence, Grant } from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { ConfigError } from '../errors.ts';
import { checkAllowSeal, checkRouteResource, checkVerify } from './checks.ts';
import { parseFencing, parseResource, parseSeal, type HeadersLike } from './parser.ts';
import { fresh, problem, problemOf, responseOf, type Answer } from './problem.ts';
import type { Verify } from './signature.ts';
import { field, writeHighest } from './wire.ts';

export interface FenceRouteOptions<Req = Request> {
  /**
   * The qualified name that the route is for. Without it any resource may be named, which is right for one fence before the
   * data of many resources. Whoever may call the route can shut out owners: let only clients call it, or `verify` them.
   */
  readonly resource?: string | ((request: Req) => string | Promise<string>) | undefined;
  /** Requires a `Fencing-Signature` for an activation. See `verifier`. @default none */
  readonly verify?: Verify | undefined;
  /** Whether whoever sent this request may seal. Without it nobody may: 405. */
  readonly allowSeal?: ((request: Req) => boolean | Promise<boolean>) | undefined;
}

/** One request to a fence route, as every kind of server has it. */
export interface FenceRequest<Req> {
  readonly method: string;
  readonly headers: HeadersLike;
  readonly request: Req;
}

/**
 * The route that `httpFence` talks to, before the fence that the data of this service is written through: POST activates
 * (204), GET tells the highest (204, `Fencing-Highest`), PUT seals (204) for whom `allowSeal` says so.
 *
 * Answers 428, 400 and 401 as `parseFencing` says; 412 with `Fencing-Highest` to a stale grant; 400 to one that is out of
 * range; 503 if the fence gave no answer; 403 to whom `allowSeal` refuses. Throws what the fence throws beside that.
 *
 * Throws `ConfigError` for an option that cannot work.
 */
export function fenceRoute(fence: Fence, options: FenceRouteOptions = {}): (request: Request) => Promise<Response> {
  const answer = fenceAnswers(fence, options);
  return async (request) => responseOf(await answer({ method: request.method, headers: request.headers, request }));
}

/** What a fence route answers, for each kind of server. */
export function fenceAnswers<Req>(
  fence: Fence,
  options: FenceRouteOptions<Req>,
): (asked: FenceRequest<Req>) => Promise<Answer> {
  refuseUnknown(options, ['resource', 'verify', 'allowSeal']);
  checkFence(fence);
  if (options.resource !== undefined) checkRouteResource(options.resource);
  checkVerify(options.verify);
  checkAllowSeal(options.allowSeal);
  return async (asked) => {
    const { status, headers, body } = await answerOf(fence, options, asked);
    return { status, headers: { ...headers, [field.enforcing]: fence.enforcing ? '1' : '0' }, body };
  };
}

async function answerOf<Req>(fence: Fence, options: FenceRouteOptions<Req>, asked: FenceRequest<Req>): Promise<Answer> {
  const { method, headers, request } = asked;
  const { verify, allowSeal } = options;
  const named = typeof options.resource === 'function' ? await options.resource(request) : options.resource;
  let grant: Grant | undefined;
  try {
    switch (method) {
      case 'POST':
        grant = parseFencing(headers, { resource: parseResource(headers, named), verify });
        await fence.activate(grant);
        return done();
      case 'GET': {
        const resource = parseResource(headers, named);
        grant = { resource, fencingToken: 0, leaseId: '' };
        const highest = await fence.highest(resource);
        return done(highest === null ? {} : writeHighest(highest));
      }
      case 'PUT': {
        if (allowSeal === undefined) break;
        // Not merely truthy: a promise of a promise would be.
        if ((await allowSeal(request)) !== true)
          return problem(403, undefined, 'Sealing is not allowed to this caller.');
        const { resource, fencingToken } = parseSeal(headers, named);
        grant = { resource, fencingToken, leaseId: '' };
        await fence.seal(resource, fencingToken);
        return done();
      }
    }
  } catch (error) {
    const answer = problemOf(error, grant);
    if (answer === undefined) throw error;
    return answer;
  }
  const allowed = allowSeal === undefined ? 'GET, POST' : 'GET, POST, PUT';
  return problem(405, undefined, `This route takes ${allowed}.`, { Allow: allowed });
}

function done(headers: Readonly<Record<string, string>> = {}): Answer {
  return { status: 204, headers: { ...fresh, ...headers } };
}

function checkFence(fence: unknown): void {
  const { activate, seal, highest } = (fence ?? {}) as Partial<Fence>;
  if ([activate, seal, highest].every((method) => typeof method === 'function')) return;
  throw new ConfigError('fence', 'must be the fence that the data of this service is written through');
}
