import {
  LeaseholdError,
  type FenceUnavailableError,
  type FencingHeaderError,
  type StaleTokenError,
} from '../errors.ts';
import type { Grant } from '../fence/fence.ts';
import { field, writeHighest } from './wire.ts';

/** An answer of ours, for whatever server sends it. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** Of `Fencing-Highest` and the like: an answer is about this moment. */
export const fresh: Readonly<Record<string, string>> = { 'Cache-Control': 'no-store' };

const rules: Readonly<Record<FencingHeaderError['reason'], string>> = {
  missing: 'must come with the request',
  incomplete: 'must come with the others',
  malformed: 'is malformed',
  duplicated: 'is there more than once',
  'other-resource': 'names another resource than this route',
  signature: 'is missing, or not one of this grant by a known key',
};

/**
 * What to answer to an error of the service's own fence, or of the headers; undefined for every other error. One that is
 * about another grant than the request's is none of the client's business: the handler may hold a lease itself.
 *
 * The texts are fixed. What an error says of keys, hosts and other owners stays here.
 */
export function problemOf(error: unknown, grant: Grant | undefined): Answer | undefined {
  const header = LeaseholdError.find(error, 'FENCING_HEADER') as FencingHeaderError | undefined;
  if (header !== undefined) {
    const { status, reason } = header;
    const more: Record<string, string> = status === 401 ? { 'WWW-Authenticate': field.signature } : {};
    return problem(status, `FENCING_HEADER;reason=${reason}`, `${header.header} ${rules[reason]}.`, more);
  }
  if (grant === undefined) return undefined;
  const stale = LeaseholdError.find(error, 'STALE_TOKEN') as StaleTokenError | undefined;
  if (stale !== undefined && isOf(stale, grant)) {
    return problem(412, 'STALE_TOKEN', 'A later grant was admitted. Nothing was written.', writeHighest(stale.highest));
  }
  const range = LeaseholdError.find(error, 'TOKEN_OUT_OF_RANGE');
  if (range !== undefined && isOf(range, grant)) {
    return problem(400, 'TOKEN_OUT_OF_RANGE', 'Fencing-Token is too far ahead of the clock here. Nothing was written.');
  }
  const silent = LeaseholdError.find(error, 'FENCE_UNAVAILABLE') as FenceUnavailableError | undefined;
  if (silent !== undefined && silent.resource === grant.resource) {
    const outcome = silent.outcome === 'not-written' ? 'Nothing was written.' : 'It may have been carried out.';
    return problem(503, 'FENCE_UNAVAILABLE', `The fence of this resource gave no answer. ${outcome}`);
  }
  return undefined;
}

function isOf(error: LeaseholdError, grant: Grant): boolean {
  return error.resource === grant.resource && error.fencingToken === grant.fencingToken;
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  405: 'Method Not Allowed',
  412: 'Precondition Failed',
  428: 'Precondition Required',
  503: 'Service Unavailable',
};

/** `application/problem+json`, RFC 9457. */
export function problem(
  status: number,
  said: string | undefined,
  detail: string,
  more: Readonly<Record<string, string>> = {},
): Answer {
  const code = said?.split(';')[0];
  return {
    status,
    headers: {
      ...fresh,
      'Content-Type': 'application/problem+json',
      ...(said === undefined ? {} : { [field.error]: said }),
      ...more,
    },
    body: JSON.stringify({ type: 'about:blank', title: titles[status], status, detail, code }),
  };
}

export function responseOf({
  status,
  headers,
  body = null,
}: {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | null | undefined;
}): Response {
  return new Response(body, { status, headers });
}
