import { ConfigError, FencingHeaderError } from '../errors.ts';
import type { Grant } from '../fence/fence.ts';
import { checkQualifiedName } from '../names.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { checkVerify } from './checks.ts';
import type { Verify } from './signature.ts';
import { field, readLeaseId, readResource, readToken } from './wire.ts';

/**
 * The headers of a request: `Headers`, an object with one value or several for a name, pairs, or `rawHeaders` of Node. Where
 * there is a choice take the raw ones: what was sent twice is still two there.
 */
export type HeadersLike =
  | Iterable<readonly [string, string]>
  | readonly string[]
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface ParseOptions {
  /** The qualified name that the route is for, never the one that the request claims. */
  readonly resource: string;
  /** Requires a `Fencing-Signature`. See `verifier`. @default none */
  readonly verify?: Verify | undefined;
}

/**
 * The grant of a request, for the service's own fence: `ledger.write(parseFencing(…), …)`. It proves nothing by itself. That
 * the grant is the latest, and not out of range, is for the fence to say in the step that writes.
 *
 * Throws `FencingHeaderError`: status 428 if there are no `Fencing-*` headers, 400 if one is missing, malformed, there twice or
 * names another resource than the route, 401 if `verify` is given and does not say true. `ConfigError` if `resource` is no
 * qualified name.
 */
export function parseFencing(headers: HeadersLike, options: ParseOptions): Grant {
  refuseUnknown(options, ['resource', 'verify']);
  const { resource, verify } = options;
  checkVerify(verify);
  const fields = new Fields(headers, routeResource(resource));
  fields.require(field.resource, field.token, field.lease);
  checkResource(fields, resource);
  const fencingToken = fields.read(field.token, readToken, 'decimal digits, 1 to 2^53 - 1, without a leading zero');
  const leaseId = fields.read(field.lease, readLeaseId, 'a leaseId as encodeURIComponent writes it');
  const grant = Object.freeze({ resource, fencingToken, leaseId });
  if (verify !== undefined) checkSignature(fields, grant, verify);
  return grant;
}

/** The resource alone, for `highest`. Without a name of the route's own it is the one of the request. */
export function parseResource(headers: HeadersLike, resource: string | undefined): string {
  const fields = new Fields(headers, resource === undefined ? undefined : routeResource(resource));
  fields.require(field.resource);
  return checkResource(fields, resource);
}

/** A seal: the resource and the token, which no lease goes with. */
export function parseSeal(
  headers: HeadersLike,
  resource: string | undefined,
): { readonly resource: string; readonly fencingToken: number } {
  const fields = new Fields(headers, resource === undefined ? undefined : routeResource(resource));
  fields.require(field.resource, field.token);
  return {
    resource: checkResource(fields, resource),
    fencingToken: fields.read(field.token, readToken, 'decimal digits, 1 to 2^53 - 1, without a leading zero'),
  };
}

function routeResource(resource: unknown): string {
  checkQualifiedName('resource', resource);
  return resource;
}

function checkResource(fields: Fields, resource: string | undefined): string {
  const claimed = fields.read(field.resource, readResource, '<namespace>/<resource> as encodeURIComponent writes it');
  if (resource === undefined || claimed === resource) return claimed;
  throw fields.fault('other-resource', field.resource, `is ${show(claimed)}, but this route is for ${show(resource)}`);
}

function checkSignature(fields: Fields, grant: Grant, verify: Verify): void {
  const signature = fields.one(field.signature);
  if (signature === undefined) {
    throw fields.fault('signature', field.signature, 'is missing; sign with the key of this service');
  }
  // Not merely truthy: a promise would be.
  if (verify(grant, signature) === true) return;
  throw fields.fault('signature', field.signature, 'is not one of this grant by a key that is good here');
}

/** The values of our headers, with all that came under each name. */
class Fields {
  readonly #values = new Map<string, unknown[]>();
  readonly #resource: string | undefined;

  constructor(headers: HeadersLike, resource: string | undefined) {
    this.#resource = resource;
    for (const [name, value] of pairsOf(headers)) {
      const lower = String(name).toLowerCase();
      if (!lower.startsWith('fencing-')) continue;
      const values = this.#values.get(lower) ?? [];
      values.push(...(Array.isArray(value) ? value : [value]));
      this.#values.set(lower, values);
    }
  }

  /** Throws unless each of them is there. */
  require(...names: readonly string[]): void {
    const missing = names.filter((name) => !this.#values.has(name.toLowerCase()));
    if (missing.length === 0) return;
    const isBare = this.#values.size === 0;
    const are = missing.length === 1 ? 'is' : 'are';
    const detail = `${are} missing; send with fencedFetch(lease) or fencingHeaders(lease)`;
    throw this.fault(isBare ? 'missing' : 'incomplete', missing.join(', '), detail);
  }

  /** The one value, or undefined if there is none. Throws if there are two, which servers and proxies join with a comma. */
  one(name: string): string | undefined {
    const values = this.#values.get(name.toLowerCase());
    if (values === undefined) return undefined;
    const [value] = values;
    if (values.length > 1 || (typeof value === 'string' && value.includes(','))) {
      throw this.fault('duplicated', name, 'is there more than once; send it once');
    }
    if (typeof value === 'string') return value;
    throw this.fault('malformed', name, `is ${show(value)}: must be a text`);
  }

  read<T>(name: string, reader: (text: string) => T | undefined, rule: string): T {
    const text = this.one(name) ?? '';
    const value = reader(text);
    if (value === undefined) throw this.fault('malformed', name, `is ${show(text)}: must be ${rule}`);
    return value;
  }

  fault(reason: FencingHeaderError['reason'], header: string, detail: string): FencingHeaderError {
    return new FencingHeaderError(this.#resource, reason, header, detail);
  }
}

function pairsOf(headers: HeadersLike): Iterable<readonly [unknown, unknown]> {
  const given: unknown = headers;
  const rule = 'must be Headers, an object, pairs, or rawHeaders of Node';
  if (typeof given !== 'object' || given === null) throw new ConfigError('headers', `are ${show(given)}: ${rule}`);
  if (!(Symbol.iterator in given)) return Object.entries(given);
  const items = [...(given as Iterable<unknown>)];
  if (items.every((item) => Array.isArray(item))) return items as [unknown, unknown][];
  if (!items.every((item) => typeof item === 'string')) throw new ConfigError('headers', `are a list: ${rule}`);
  return Array.from({ length: items.length / 2 }, (_, index) => [items[2 * index], items[2 * index + 1]] as const);
}
