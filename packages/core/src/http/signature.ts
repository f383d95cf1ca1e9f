import { createHmac, createSecretKey, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';
import { ConfigError } from '../errors.ts';
import type { Grant } from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';

/** Gives the `Fencing-Signature` of a grant. Called between the check of the lease and the send, so it must not wait. */
export type Sign = (grant: Grant) => string;

/** Whether the signature is one of this grant. Only `true` counts. */
export type Verify = (grant: Grant, signature: string) => boolean;

/** Secrets of 32 bytes or more, by key id; a string counts as its UTF-8 bytes. */
export type SigningKeys = Readonly<Record<string, string | Uint8Array>>;

export interface SignerOptions {
  readonly keys: SigningKeys;
  /** The id of the key to sign with. */
  readonly current: string;
}

export interface VerifierOptions {
  /** All keys that are good now: before a signer gets a new one, every verifier must have it. */
  readonly keys: SigningKeys;
}

const KEY_ID = /^[A-Za-z0-9._~-]{1,64}$/;
const MIN_BYTES = 32;
const SIGNATURE = /^v1;([A-Za-z0-9._~-]{1,64});([A-Za-z0-9_-]{43})$/;

/**
 * Signs grants with HMAC-SHA-256, for `sign`. It says that somebody with this key named this grant, and no more: whoever
 * saw the headers can send them again while the grant is good, and the rest of the request is not covered. Use TLS.
 *
 * Throws `ConfigError` for a secret below 32 bytes, or if `current` is none of the keys.
 */
export function signer(options: SignerOptions): Sign {
  refuseUnknown(options, ['keys', 'current']);
  const { current } = options;
  const key = readKeys(options.keys).get(current);
  if (key === undefined) throw new ConfigError('current', `is ${show(current)}: must be the id of one of the keys`);
  return (grant) => `v1;${current};${macOf(key, grant)}`;
}

/**
 * Checks what `signer` made, for `verify`. In constant time; an unknown key costs what a wrong signature costs. To change a
 * key: the new one to all verifiers, then to the signers as `current`; when no grant of the old one is in use any more, take
 * that away.
 *
 * Throws `ConfigError` for a secret below 32 bytes.
 */
export function verifier(options: VerifierOptions): Verify {
  refuseUnknown(options, ['keys']);
  const keys = readKeys(options.keys);
  const nobodys = createSecretKey(randomBytes(MIN_BYTES));
  return (grant, signature) => {
    const [, id = '', mac = ''] = SIGNATURE.exec(signature) ?? [];
    const key = keys.get(id);
    const expected = Buffer.from(macOf(key ?? nobodys, grant));
    // As text, because two texts can decode to the same bytes.
    const given = Buffer.alloc(expected.length);
    given.write(mac, 'latin1');
    return timingSafeEqual(expected, given) && key !== undefined;
  };
}

/**
 * What is signed: a line that says what it is, then the values of the three headers as they are sent, a line each. None of
 * them can hold a line feed, so no two grants give the same text.
 */
function macOf(key: KeyObject, { resource, fencingToken, leaseId }: Grant): string {
  const text = `leasehold fencing grant v1\n${encodeURIComponent(resource)}\n${fencingToken}\n${encodeURIComponent(leaseId)}`;
  return createHmac('sha256', key).update(text).digest('base64url');
}

/** Kept as key objects, which show nothing of themselves wherever they are printed. */
function readKeys(keys: unknown): Map<string, KeyObject> {
  if (typeof keys !== 'object' || keys === null)
    throw new ConfigError('keys', 'must be an object of secrets by key id');
  const read = new Map<string, KeyObject>();
  for (const [id, secret] of Object.entries(keys)) {
    if (!KEY_ID.test(id))
      throw new ConfigError('keys', `has the id ${show(id)}: must be 1 to 64 of A-Z a-z 0-9 . _ ~ -`);
    const bytes: unknown = typeof secret === 'string' ? Buffer.from(secret) : secret;
    // Nothing of a secret is shown, not even of one that is none.
    if (!(bytes instanceof Uint8Array)) throw new ConfigError(`keys.${id}`, 'must be a string or bytes');
    if (bytes.length < MIN_BYTES) {
      throw new ConfigError(
        `keys.${id}`,
        `has ${bytes.length} bytes: must have at least ${MIN_BYTES}, drawn at random`,
      );
    }
    read.set(id, createSecretKey(bytes));
  }
  if (read.size === 0) throw new ConfigError('keys', 'are none; give { [id]: secret }');
  return read;
}
