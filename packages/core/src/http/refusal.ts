import { FenceUnavailableError, StaleTokenError, TokenOutOfRangeError } from '../errors.ts';
import { admits, type Grant } from '../fence/fence.ts';
import { field, readHighest } from './wire.ts';

/**
 * What an answer says about the grant it was given: that it is stale or out of range. Undefined for every other answer, and
 * for a 412 whose `Fencing-Highest` is missing or would let this grant in: that is about something else, such as an ETag.
 */
export function verdictOf(
  response: Response,
  grant: Grant,
  fence: string,
): StaleTokenError | TokenOutOfRangeError | undefined {
  const { resource, fencingToken } = grant;
  if (response.status === 412) {
    const highest = readHighest(response.headers);
    if (highest === null || admits(highest, grant)) return undefined;
    return new StaleTokenError(resource, { fence, fencingToken, highest });
  }
  if (response.status === 400 && response.headers.get(field.error) === 'TOKEN_OUT_OF_RANGE') {
    return new TokenOutOfRangeError(resource, fencingToken, `fence ${fence}`);
  }
  return undefined;
}

/** Refused before the service's fence or its handler had any part in it. */
const AT_THE_DOOR: ReadonlySet<number> = new Set([400, 401, 403, 405, 428]);

/** The other refusals of ours: the handler behind the route was not allowed to answer. */
export function failureOf(response: Response, resource: string, fence: string): FenceUnavailableError | undefined {
  const said = response.headers.get(field.error);
  if (said === null) return undefined;
  const { status } = response;
  const outcome = AT_THE_DOOR.has(status) ? 'not-written' : 'unknown';
  const help = status === 401 ? ': give `sign`, or look at its keys' : '';
  return new FenceUnavailableError(
    resource,
    fence,
    `answered ${status} ${said.slice(0, 80)}${help}`,
    undefined,
    outcome,
  );
}

/** Frees the connection of an answer that nobody will read. */
export function discard(response: Response): void {
  // Of a fetch of the user's own, whatever its body is: it must not hide what the answer said.
  void Promise.resolve()
    .then(() => response.body?.cancel())
    .catch(() => {});
}
