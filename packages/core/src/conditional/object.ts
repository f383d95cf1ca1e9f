import { types } from 'node:util';
import type { Clock } from '../clock.ts';
import type { Duration } from '../duration.ts';
import { ConfigError, FenceUnavailableError, LeaseholdError } from '../errors.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { given, messageOf } from '../thrown.ts';
import type { ConditionalCell } from './cell.ts';
import { ConditionalFence } from './fence.ts';
import type { Versioned } from './place.ts';

/** The part of `fetch` that is used: give one that signs requests, such as `(url, init) => aws.fetch(url, init)`. */
export type ObjectFetch = (
  url: string,
  init: {
    readonly method: 'GET' | 'PUT';
    readonly headers: Record<string, string>;
    readonly body?: string;
    /** A request that was sent on to another place as a GET would look like one that was carried out. */
    readonly redirect: 'manual';
    readonly signal: AbortSignal;
  },
) => Promise<{
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

export interface ObjectFenceOptions {
  /** Unique among the fences of one acquisition. Default `object`. */
  readonly name?: string | undefined;
  /**
   * Where the object of a resource (its qualified name) is, each at a place of its own: at the store itself, not at a CDN
   * or another cache before it. ``(resource) => `https://bucket.example/fences/${fileName(resource)}` `` will do: an encoded
   * slash or dots in a path are not the same to everybody who signs or passes on a URL.
   */
  readonly url: (resource: string) => string | URL;
  /** @default the global fetch, which signs nothing */
  readonly fetch?: ObjectFetch | undefined;
  /**
   * Within which every call settles, the time of its own body not counted but that of writes before it in this process; a
   * single request gets a third. @default '5s'
   */
  readonly timeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * A fence for JSON values in object storage that speaks S3's conditional requests: GET with an ETag, PUT with `If-Match`
 * or `If-None-Match: *`, each atomic and strongly consistent. The object is the fence's: mark and value are both in its
 * body, because an ETag is often a hash of the body alone (a mark in the metadata would not change it, and the late write
 * of an old owner would find the ETag that it expects). Readers take `value` from it. Nobody may write or delete it but
 * through the fence: a deleted object has forgotten who was admitted.
 *
 * Values are JSON: `ConfigError` for one that JSON cannot hold (a Map, NaN, a function, a bigint, bytes). A property that is
 * undefined is left out, and what has a `toJSON` becomes what that gives: a Date becomes a text.
 *
 * For large data put the data under a new, never reused key first, and its key into the fence: docs/fences.md.
 *
 * Throws `ConfigError` for options that cannot work. A store that takes the headers and ignores them is found out by the
 * first change, which rejects with `ConfigError`.
 */
export function objectFence<V = unknown>(options: ObjectFenceOptions): ConditionalFence<V> {
  refuseUnknown(options, ['name', 'url', 'fetch', 'timeout', 'clock']);
  const { name = 'object', url, fetch = globalThis.fetch, timeout, clock } = options;
  for (const [option, given] of [
    ['url', url],
    ['fetch', fetch],
  ] as const) {
    if (typeof given !== 'function') throw new ConfigError(option, `is ${show(given)}: must be a function`);
  }
  const bucket = new Bucket<V>(name, url, fetch);
  return new ConditionalFence<V>({
    name,
    atomic: true,
    read: (resource, signal) => bucket.read(resource, signal),
    compareAndSet: (resource, version, cell, signal) =>
      bucket.compareAndSet(resource, version as string | null, cell, signal),
    timeout,
    clock,
  });
}

type Answer = Awaited<ReturnType<ObjectFetch>>;

class Bucket<V> {
  readonly #name: string;
  readonly #url: (resource: string) => string | URL;
  readonly #fetch: ObjectFetch;

  constructor(name: string, url: (resource: string) => string | URL, fetch: ObjectFetch) {
    this.#name = name;
    this.#url = url;
    this.#fetch = fetch;
  }

  async read(resource: string, signal: AbortSignal): Promise<Versioned<V, string> | null> {
    const url = this.#urlOf(resource);
    const send = this.#fetch;
    const answer = await send(url, { method: 'GET', headers: {}, redirect: 'manual', signal });
    const text = await answer.text();
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw this.#failure(resource, 'GET', url, answer.status, text);
    const version = this.#checkedTag(resource, url, answer);
    try {
      return { version, cell: JSON.parse(text) as ConditionalCell<V> };
    } catch (cause) {
      throw this.#refusal(
        resource,
        `${url} holds no JSON: it is not an object of this fence, and is left alone`,
        cause,
      );
    }
  }

  async compareAndSet(
    resource: string,
    version: string | null,
    cell: ConditionalCell<V>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const url = this.#urlOf(resource);
    const condition: Record<string, string> = version === null ? { 'if-none-match': '*' } : { 'if-match': version };
    const headers = { 'content-type': 'application/json', ...condition };
    const send = this.#fetch;
    const answer = await send(url, { method: 'PUT', headers, body: jsonOf(cell), redirect: 'manual', signal });
    // Read to its end, or the connection is not used again.
    const text = answer.text().catch(() => '');
    const { status } = answer;
    if (status === 200 || status === 201 || status === 204) return true;
    // 409: another conditional request was under way. 404: what we expect has been deleted.
    if (status === 412 || status === 409 || (status === 404 && version !== null)) return false;
    throw this.#failure(resource, 'PUT', url, status, await text);
  }

  #urlOf(resource: string): string {
    const url: unknown = given('url', () => this.#url(resource));
    const text = url instanceof URL ? url.href : url;
    if (typeof text === 'string' && URL.canParse(text) && /^https?:/i.test(text)) return text;
    throw new ConfigError('url', `gave ${show(text)}: must give the http(s) URL of an object`);
  }

  #checkedTag(resource: string, url: string, answer: Answer): string {
    const tag = answer.headers.get('etag');
    if (tag === null || tag === '') {
      throw this.#refusal(resource, `${url} came without an ETag: there is nothing that a write could depend on`);
    }
    if (!tag.startsWith('W/')) return tag;
    throw this.#refusal(
      resource,
      `${url} came with the weak ETag ${tag}, which two different contents may share and If-Match never matches; ask the store itself, without a proxy that compresses`,
    );
  }

  /** 5xx, 408 and 429 leave open whether a PUT was carried out; anything else is the store's word that it was not. */
  #failure(resource: string, method: string, url: string, status: number, text: string): Error {
    const code = /<Code>([^<]{1,80})<\/Code>/.exec(text)?.[1];
    const what = `${method} ${url} was answered ${status}${code === undefined ? '' : ` (${code})`}`;
    if (status >= 500 && status !== 501) return new Error(what);
    if (status === 408 || status === 429) return new Error(what);
    return this.#refusal(resource, `${what}${hintFor(method, status)}`);
  }

  #refusal(resource: string, detail: string, cause?: unknown): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.#name, detail, cause, 'not-written');
  }
}

function hintFor(method: string, status: number): string {
  if (status === 403 && method === 'GET') return ' (S3 says this of a missing object, too, without s3:ListBucket)';
  if (status < 400) return ' (requests are not sent on: give the URL that the store itself answers)';
  if (status === 404) return ' (is there such a bucket?)';
  if (status === 501) return ' (does this store support conditional writes?)';
  return '';
}

/** Throws `ConfigError` for what JSON cannot hold, or would change without a word. */
function jsonOf(cell: ConditionalCell<unknown>): string {
  function checked(this: unknown, _key: string, value: unknown): unknown {
    const isLost = value === undefined && (Array.isArray(this) || this === cell);
    if (!isLost && !isChanged(value)) return value;
    throw new ConfigError('tx.set', `got ${what(value)}, which JSON cannot hold`);
  }
  try {
    return JSON.stringify(cell, checked);
  } catch (cause) {
    const own = LeaseholdError.of(cause);
    if (own !== undefined) throw own;
    throw new ConfigError('tx.set', `got ${what(cell.value)}, which JSON cannot hold: ${messageOf(cause)}`, cause);
  }
}

/** What becomes null, nothing or an empty object. What has a toJSON, such as a Date, says itself what it becomes. */
function isChanged(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  if (typeof value !== 'object') return ['function', 'symbol', 'bigint'].includes(typeof value);
  const { isMap, isSet, isRegExp, isPromise, isNativeError, isAnyArrayBuffer, isArrayBufferView } = types;
  return [isMap, isSet, isRegExp, isPromise, isNativeError, isAnyArrayBuffer, isArrayBufferView].some((is) =>
    is(value),
  );
}

function what(value: unknown): string {
  return typeof value === 'object' && value !== null ? Object.prototype.toString.call(value) : show(value);
}
