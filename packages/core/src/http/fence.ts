import { systemClock, type Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError, FenceUnavailableError, LeaseholdError } from '../errors.ts';
import {
  checkBody,
  checkQualified,
  checkToken,
  grantForWrite,
  grantOf,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { given, isError, messageOf, propertyOf } from '../thrown.ts';
import { checkFetch, checkSign } from './checks.ts';
import { within } from './deadline.ts';
import { globalFetch, isRequest, sendFenced } from './fetch.ts';
import { discard, failureOf, verdictOf } from './refusal.ts';
import type { Sign } from './signature.ts';
import { field, readHighest, writeGrant, writeResource } from './wire.ts';
import { Write } from './write.ts';

export interface HttpFenceOptions {
  /** Of the service's fence route (see `fenceRoute`), `http:` or `https:`; or a function that makes it of a qualified name. */
  readonly url: string | URL | ((resource: string) => string | URL);
  /** Unique among the fences of one acquisition. @default 'http' */
  readonly name?: string | undefined;
  /** What sends the requests; a place for what the service wants beside the grant. @default the global fetch */
  readonly fetch?: typeof fetch | undefined;
  /** Adds `Fencing-Signature` to activations and writes. See `signer`. @default none */
  readonly sign?: Sign | undefined;
  /** Within which `activate`, `seal`, `highest` and each request of a write are answered. @default '5s' */
  readonly timeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * A service behind a fence of its own, as a fence: `run` activates it before the body reads anything, and `write` gives a
 * fenced `fetch`. The service answers at `url` with `fenceRoute`, and hands the grants of its other routes to the same fence.
 *
 * Throws `ConfigError` for an option that cannot work.
 */
export function httpFence(options: HttpFenceOptions): HttpFence {
  return new HttpFence(options);
}

export class HttpFence implements Fence<typeof fetch> {
  readonly name: string;
  readonly #url: (resource: string) => URL;
  readonly #send: typeof fetch;
  readonly #sign: Sign | undefined;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  /** What each service said last about the fence behind it. */
  readonly #claims = new Map<string, boolean>();

  constructor(options: HttpFenceOptions) {
    refuseUnknown(options, ['url', 'name', 'fetch', 'sign', 'timeout', 'clock']);
    const { url, name = 'http', fetch: send = globalFetch, sign, timeout = '5s', clock = systemClock } = options;
    checkFetch(send);
    checkSign(sign);
    const timeoutMs = parseDuration('timeout', timeout);
    if (timeoutMs === 0 || timeoutMs === Infinity)
      throw new ConfigError('timeout', `${timeout} gives no call a deadline`);
    const fixed = typeof url === 'function' ? undefined : checkedUrl(url);
    this.name = name;
    this.#url = (resource) =>
      fixed ?? checkedUrl(given('url', () => (url as (resource: string) => string | URL)(resource)));
    this.#send = send;
    this.#sign = sign;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /**
   * A claim of the service: true if every service that answered an activation last said that its fence checks and writes
   * in one atomic step. False until an activation was answered.
   */
  get enforcing(): boolean {
    return this.#claims.size > 0 && [...this.#claims.values()].every(Boolean);
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    try {
      const { response, url } = await this.#ask('POST', asked, writeGrant(asked, this.#sign));
      this.#claims.set(url.origin, response.headers.get(field.enforcing) === '1');
    } catch (error) {
      throw reportRefusal(grant, error);
    }
  }

  /**
   * Gives `body` a fenced `fetch` to the service; a path is resolved against `url`. **Each request is a step of its own**:
   * of two requests the first may be carried out and the second refused, and what a request has done stays if the body
   * throws. What must happen together goes into one request.
   *
   * Rejects as `fencedFetch` does, with `FenceNotActivatedError`, and with `FenceUnavailableError` if the service gave no
   * answer, or one that its handler had no part in (428, 401, 503); with the refusal of a request that the body ignored; with
   * `ConfigError` for a request to another origin, which this fence has not activated, or if there was none at all.
   */
  async write<T>(grant: Grant | Holding, body: (send: typeof fetch) => T | Promise<T>): Promise<T> {
    checkBody(body);
    const { resource } = grantForWrite(this, grant);
    const base = this.#url(resource);
    return new Write((input, init) => this.#request(grant, base, input, init)).run(body);
  }

  /** Rejects with `FenceUnavailableError` where the service does not let its callers seal. */
  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    const headers = { [field.resource]: writeResource(resource), [field.token]: String(fencingToken) };
    await this.#ask('PUT', { resource, fencingToken, leaseId: '' }, headers);
  }

  async highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    checkQualified(resource);
    const headers = { [field.resource]: writeResource(resource) };
    const { response } = await this.#ask('GET', { resource, fencingToken: 0, leaseId: '' }, headers);
    const highest = readHighest(response.headers);
    // Not to be taken for none.
    if (highest === null && response.headers.has(field.highest))
      throw this.#unavailable(resource, 'gave no usable token');
    return highest;
  }

  /** A question to the fence route. */
  async #ask(method: string, asked: Grant, headers: Record<string, string>): Promise<{ response: Response; url: URL }> {
    const { resource } = asked;
    const url = this.#url(resource);
    const response = await this.#answer(resource, (signal) =>
      this.#send(url, { method, headers, redirect: 'manual', signal }),
    );
    discard(response);
    const verdict = verdictOf(response, asked, this.name);
    if (verdict !== undefined) throw verdict;
    const failure = failureOf(response, resource, this.name);
    if (failure !== undefined) throw failure;
    // Any page answers 200. A fence says so.
    const isFence = response.headers.has(field.enforcing);
    if (response.ok && isFence) return { response, url };
    const what = `${method} ${url.origin}${url.pathname} answered ${response.status}`;
    throw this.#unavailable(resource, isFence ? `${what}: not allowed there` : `${what} and is no fence route`);
  }

  /** A request of a write. */
  async #request(
    grant: Grant | Holding,
    base: URL,
    input: Parameters<typeof fetch>[0],
    init: Parameters<typeof fetch>[1],
  ): Promise<Response> {
    const target = isRequest(input) ? input : resolve(input, base);
    const { origin } = isRequest(target) ? new URL(target.url) : target;
    if (origin !== base.origin) {
      throw new ConfigError(
        'fetch',
        `${origin} is not ${base.origin}, which this fence was activated at; use one fence each`,
      );
    }
    const { resource } = grantOf(grant);
    const sending = { holder: grant, ask: () => grantForWrite(this, grant), send: this.#send, sign: this.#sign };
    const own = init?.signal ?? (isRequest(input) ? input.signal : undefined);
    const response = await this.#answer(
      resource,
      (until) => sendFenced({ ...sending, fence: this.name, until }, target, init),
      own,
    );
    const failure = failureOf(response, resource, this.name);
    if (failure === undefined) return response;
    discard(response);
    throw failure;
  }

  /** Within the timeout. What is neither ours nor the caller's own abort is a service that gave no answer. */
  async #answer(
    resource: string,
    work: (signal: AbortSignal) => Promise<Response>,
    own?: AbortSignal,
  ): Promise<Response> {
    const late = (): Error => this.#unavailable(resource, `no answer within ${this.#timeoutMs} ms`);
    try {
      return await within(this.#clock, this.#timeoutMs, late, work);
    } catch (error) {
      if (LeaseholdError.of(error) !== undefined || (own?.aborted === true && error === own.reason)) throw error;
      throw this.#unavailable(resource, `was lost: ${reasonOf(error)}`, error);
    }
  }

  #unavailable(resource: string, detail: string, cause?: unknown): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.name, detail, cause);
  }
}

function checkedUrl(given: unknown): URL {
  const text = given instanceof URL ? given.href : given;
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError('url', `is ${show(text)}: must be the http: or https: address of a fence route`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new ConfigError('url', 'has a user in it, which fetch refuses; give a fetch that sets Authorization');
  }
  return url;
}

function resolve(input: string | URL, base: URL): URL {
  if (URL.canParse(String(input), base.href)) return new URL(String(input), base.href);
  throw new ConfigError('fetch', `was given ${show(String(input))}: must be an address, or a path at ${base.origin}`);
}

/** "fetch failed" says nothing; its cause does. */
function reasonOf(error: unknown): string {
  const cause = propertyOf(error, 'cause');
  return isError(cause) ? `${messageOf(error)}: ${messageOf(cause)}` : messageOf(error);
}
