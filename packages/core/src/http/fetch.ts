import { ConfigError } from '../errors.ts';
import { reportRefusal, grantOf, type Grant, type Holding } from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { messageOf, peek } from '../thrown.ts';
import { checkFetch, checkSign } from './checks.ts';
import { heldGrant } from './headers.ts';
import { link } from './links.ts';
import { discard, verdictOf } from './refusal.ts';
import type { Sign } from './signature.ts';
import { writeGrant } from './wire.ts';

export interface FencedFetchOptions {
  /** What sends the requests. @default the global fetch */
  readonly fetch?: typeof fetch | undefined;
  /** Adds `Fencing-Signature`. See `signer`. @default none */
  readonly sign?: Sign | undefined;
}

type Input = Parameters<typeof fetch>[0];
type Init = NonNullable<Parameters<typeof fetch>[1]>;

/** Whose grant goes with a request, and how it is sent. */
export interface Sending {
  readonly holder: Grant | Holding;
  /** The grant, or an error for a lease that may not write now. Called just before the send. */
  readonly ask: () => Grant;
  readonly send: typeof fetch;
  readonly sign: Sign | undefined;
  /** For messages. */
  readonly fence: string;
  /** Aborts the request as well, until it is answered. */
  readonly until?: AbortSignal | undefined;
}

/** The global fetch of the moment: it may have been replaced, by instrumentation or by a test. */
export function globalFetch(...args: Parameters<typeof fetch>): ReturnType<typeof fetch> {
  return fetch(...args);
}

/**
 * `fetch` under a lease or a grant, to a service that hands the grant to its own fence. Each request
 *
 * - asks the lease whether it is held and is then sent at once: `LeaseLostError` if not;
 * - carries the `Fencing-*` headers. `ConfigError` if other ones are set already, or for what fetch could not send;
 * - is aborted with the lease's signal, and with its own. A run that was cancelled before it still holds its lease: what it
 *   sends to finish up is not aborted;
 * - is never redirected: `redirect` is `manual` (or `error`), and the caller gets the 3xx. The headers name a right, which
 *   is not to be shown to whatever host an answer names, and a redirected POST may arrive as a GET.
 *
 * Rejects with `StaleTokenError` on a 412 with `Fencing-Highest`, and tells the lease, which is lost then; with
 * `TokenOutOfRangeError`. Every other answer is the caller's, also a 412 of an ETag.
 *
 * It knows nothing of an activation. If the run reads anything before its first request here, use `httpFence`.
 */
export function fencedFetch(grant: Grant | Holding, options: FencedFetchOptions = {}): typeof fetch {
  refuseUnknown(options, ['fetch', 'sign']);
  const { fetch: send = globalFetch, sign } = options;
  checkFetch(send);
  checkSign(sign);
  grantOf(grant);
  return (input, init) =>
    sendFenced({ holder: grant, ask: () => heldGrant(grant), send, sign, fence: hostOf(input) }, input, init);
}

/** One request under a grant. Nothing is awaited before it is sent. */
export async function sendFenced(sending: Sending, input: Input, init: Init | undefined): Promise<Response> {
  const { holder, send, sign, fence, until } = sending;
  const request = isRequest(input) ? input : undefined;
  // Its fields are getters, and would be lost in a copy.
  if (isRequest(init)) throw new ConfigError('init', 'is a Request; give it as the first argument');
  checkRequest(input, init, send === globalFetch);
  const headers = new Headers(init?.headers ?? request?.headers);
  const redirect = redirectOf(init?.redirect, request?.redirect);
  const own = init?.signal === undefined ? request?.signal : init.signal;
  const asked = sending.ask();
  addFields(headers, writeGrant(asked, sign));
  const links = link([leaseSignal(holder), own, until]);
  try {
    const response = await send(input, { ...init, headers, redirect, signal: links.signal ?? null });
    const verdict = verdictOf(response, asked, fence);
    if (verdict === undefined) {
      links.release(response);
      return response;
    }
    discard(response);
    throw reportRefusal(holder, verdict);
  } catch (error) {
    links.release();
    throw error;
  }
}

export function isRequest(value: unknown): value is Request {
  return typeof value === 'object' && value !== null && 'headers' in value && 'redirect' in value && 'url' in value;
}

/**
 * Throws `ConfigError` for a request that fetch would not send: what it rejects with then looks like a lost connection. A
 * `fetch` of somebody else's may know more addresses than this one.
 */
function checkRequest(input: Input, init: Init | undefined, isGlobal: boolean): void {
  const address = isRequest(input) ? input.url : String(input);
  const parsed = URL.canParse(address) ? new URL(address) : undefined;
  // Nothing is said of what fetch would say: that has the password in it, or the value of the header.
  if (parsed !== undefined && (parsed.username !== '' || parsed.password !== '')) {
    throw new ConfigError('fetch', 'was given an address with a user in it, which fetch refuses; set Authorization');
  }
  const headers = peek(() => new Headers(init?.headers ?? (isRequest(input) ? input.headers : {})));
  if (headers === undefined) {
    throw new ConfigError('headers', 'have a name or a value in them that HTTP does not allow, such as a line break');
  }
  const body = init?.body ?? null;
  if (isRequest(input) && input.bodyUsed && body === null) {
    throw new ConfigError('fetch', 'was given a Request whose body is used up; make a new one for each request');
  }
  // A body in the place of the real one, which must be read only once.
  const isStream = typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
  const bodyLike = body === null ? null : isStream ? new ReadableStream() : '';
  try {
    const { signal: _, ...rest } = init ?? {};
    const method = init?.method ?? (isRequest(input) ? input.method : 'GET');
    const url = isGlobal || parsed !== undefined ? address : 'http://localhost';
    void new Request(url, { ...rest, method, headers, redirect: 'manual', body: bodyLike });
  } catch (cause) {
    throw new ConfigError('fetch', `cannot send this request: ${messageOf(cause)}`, cause);
  }
}

function hostOf(input: Input): string {
  try {
    return new URL(isRequest(input) ? input.url : String(input)).host;
  } catch {
    return 'http';
  }
}

/** A lease's signal, unless it has aborted already: the lease was just found held, so it was only cancelled. */
function leaseSignal(holder: Grant | Holding): AbortSignal | undefined {
  const { signal } = holder as { readonly signal?: unknown };
  return signal instanceof AbortSignal && !signal.aborted ? signal : undefined;
}

function redirectOf(own: string | undefined, requested: string | undefined): 'manual' | 'error' {
  if (own === 'follow') {
    throw new ConfigError(
      'redirect',
      "'follow' would show the grant to another host; take the 3xx and its Location, and decide there",
    );
  }
  // A Request says `follow` when nobody said anything.
  return (own ?? requested) === 'error' ? 'error' : 'manual';
}

/** Whatever begins with `Fencing-` is ours to say. */
function addFields(headers: Headers, fields: Readonly<Record<string, string>>): void {
  const ours = new Headers(fields);
  for (const [name, value] of headers) {
    if (!name.startsWith('fencing-') || ours.get(name) === value) continue;
    throw new ConfigError('headers', `set ${name} to something else than this lease does; leave Fencing-* out`);
  }
  for (const [name, value] of Object.entries(fields)) headers.set(name, value);
}
