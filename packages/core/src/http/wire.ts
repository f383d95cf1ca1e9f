/**
 * How a grant is written in headers. `parser.ts` reads what this writes and nothing else: one spelling for each grant, so
 * that nobody along the way can read it in another sense, and a signature is over what is sent.
 */

import { ConfigError } from '../errors.ts';
import type { Grant } from '../fence/fence.ts';
import { checkLeaseId, checkQualifiedName } from '../names.ts';
import { given } from '../thrown.ts';
import type { Sign } from './signature.ts';

export const field = {
  /** The qualified name, as encodeURIComponent writes it: any name becomes a legal value. */
  resource: 'Fencing-Resource',
  token: 'Fencing-Token',
  /** The leaseId, encoded like the name. */
  lease: 'Fencing-Lease',
  signature: 'Fencing-Signature',
  /** In answers: the highest token of the resource, and the lease that it was admitted for; none if it was sealed. */
  highest: 'Fencing-Highest',
  highestLease: 'Fencing-Highest-Lease',
  /** In every answer of a fence route: `1` if the fence behind it checks and writes in one atomic step, else `0`. */
  enforcing: 'Fencing-Enforcing',
  /** In every refusal of ours: the code of the error. */
  error: 'Fencing-Error',
} as const;

// Of the longest qualified name, 64 + 1 + 256 bytes, three characters each.
const MAX_LENGTH = 963;
const TOKEN = /^[1-9][0-9]{0,15}$/;

function passes(check: (option: string, name: unknown) => void, name: string): boolean {
  try {
    check('name', name);
    return true;
  } catch {
    return false;
  }
}

/** Undefined unless encodeURIComponent writes exactly this. */
function decoded(text: string): string | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  try {
    const value = decodeURIComponent(text);
    return encodeURIComponent(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Throws `ConfigError` for what is no qualified name: it could not be read on the other side. */
export function writeResource(resource: string): string {
  checkQualifiedName('resource', resource);
  return encodeURIComponent(resource);
}

export function readResource(text: string): string | undefined {
  const resource = decoded(text);
  return resource !== undefined && passes(checkQualifiedName, resource) ? resource : undefined;
}

/** Decimal digits, 1 to 2^53 - 1, no sign, no leading zero; else undefined. */
export function readToken(text: string): number | undefined {
  const token = TOKEN.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(token) ? token : undefined;
}

export function readLeaseId(text: string): string | undefined {
  const leaseId = decoded(text);
  return leaseId !== undefined && passes(checkLeaseId, leaseId) ? leaseId : undefined;
}

/** The headers of a grant. Throws `ConfigError` for one that could not be read again. */
export function writeGrant(grant: Grant, sign: Sign | undefined): Record<string, string> {
  const { fencingToken, leaseId } = grant;
  checkLeaseId('grant.leaseId', leaseId);
  const headers: Record<string, string> = {
    [field.resource]: writeResource(grant.resource),
    [field.token]: String(fencingToken),
    [field.lease]: encodeURIComponent(leaseId),
  };
  if (sign === undefined) return headers;
  const signature: unknown = given('sign', () => sign(grant));
  if (typeof signature !== 'string' || !/^[\u0021-\u002b\u002d-\u007e]{1,1024}$/.test(signature)) {
    throw new ConfigError(
      'sign',
      'must give a signature at once, as 1 to 1,024 visible characters of ASCII without a comma',
    );
  }
  return { ...headers, [field.signature]: signature };
}

/** The highest grant that an answer names, or null if it names none. */
export function readHighest(
  headers: Headers,
): { readonly fencingToken: number; readonly leaseId: string | null } | null {
  const fencingToken = readToken(headers.get(field.highest) ?? '');
  if (fencingToken === undefined) return null;
  return { fencingToken, leaseId: readLeaseId(headers.get(field.highestLease) ?? '') ?? null };
}

export function writeHighest(highest: {
  readonly fencingToken: number;
  readonly leaseId: string | null;
}): Record<string, string> {
  const headers: Record<string, string> = { [field.highest]: String(highest.fencingToken) };
  // A fence may hold one that came by another way, and could not be read.
  if (highest.leaseId !== null && passes(checkLeaseId, highest.leaseId)) {
    headers[field.highestLease] = encodeURIComponent(highest.leaseId);
  }
  return headers;
}
