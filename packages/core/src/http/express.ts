import type { Fence, Grant } from '../fence/fence.ts';
import { checkFenced, grantOfRequest, type FencedOptions } from './fenced.ts';
import type { HeadersLike } from './parser.ts';
import { problemOf, type Answer } from './problem.ts';
import { fenceAnswers, type FenceRouteOptions } from './route.ts';

declare global {
  // The name that Express gives to whoever adds something to its requests.
  namespace Express {
    interface Request {
      /** Set by `expressFencing` of Leasehold. */
      grant: Grant;
    }
  }
}

/** What we need of a request of Express 5, or of Node alone. */
export interface ExpressRequest {
  readonly method?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly rawHeaders?: readonly string[] | undefined;
}

/** What a request has in a route of Express. */
export interface ExpressRouteRequest extends ExpressRequest {
  readonly path: string;
  readonly params: Readonly<Record<string, string | string[]>>;
}

export interface ExpressResponse {
  readonly headersSent: boolean;
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body?: string): unknown;
}

export type ExpressNext = (error?: unknown) => void;

export type ExpressFencing = (req: ExpressRequest, res: unknown, next: ExpressNext) => Promise<void>;

/**
 * Middleware for Express 5: reads the grant of a request into `req.grant`, for the handler to give to the service's own fence.
 * What is wrong with the headers goes to `next` as a `FencingHeaderError`: put `fencingErrors()` behind the routes.
 *
 * Throws `ConfigError` for an option that cannot work.
 */
export function expressFencing(options: FencedOptions<ExpressRouteRequest>): ExpressFencing;
export function expressFencing<Req extends ExpressRequest>(options: FencedOptions<Req>): ExpressFencing;
export function expressFencing<Req extends ExpressRequest>(options: FencedOptions<Req>): ExpressFencing {
  checkFenced(options);
  return async (req, _res, next) => {
    let grant: Grant;
    try {
      grant = await grantOfRequest(options, req as Req, sentHeaders(req));
    } catch (error) {
      next(error);
      return;
    }
    (req as { grant?: Grant }).grant = grant;
    next();
  };
}

/**
 * Error middleware for Express 5: answers what `fenced` answers to an error of the headers, or of the service's own fence
 * about the grant of this request. Every other error goes on to the error handlers of the application.
 */
export function fencingErrors(): (
  error: unknown,
  req: ExpressRequest,
  res: ExpressResponse,
  next: ExpressNext,
) => void {
  return (error, req, res, next) => {
    const answer = res.headersSent ? undefined : problemOf(error, (req as { grant?: Grant }).grant);
    if (answer === undefined) next(error);
    else send(res, answer);
  };
}

/** `fenceRoute` for Express 5: `app.all('/fence', expressFenceRoute(fence))`. */
export function expressFenceRoute<Req extends ExpressRequest = ExpressRequest>(
  fence: Fence,
  options: FenceRouteOptions<Req> = {},
): (req: Req, res: ExpressResponse, next: ExpressNext) => Promise<void> {
  const answer = fenceAnswers(fence, options);
  return async (req, res, next) => {
    let answered: Answer;
    try {
      answered = await answer({ method: req.method ?? '', headers: sentHeaders(req), request: req });
    } catch (error) {
      next(error);
      return;
    }
    send(res, answered);
  };
}

/** As they were sent: `req.headers` has joined what came twice. */
function sentHeaders(req: ExpressRequest): HeadersLike {
  return req.rawHeaders ?? req.headers;
}

function send(res: ExpressResponse, { status, headers, body }: Answer): void {
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  res.end(body);
}
