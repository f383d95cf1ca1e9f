import { createHash } from 'node:crypto';
import { ConfigError } from '../../errors.ts';
import { show } from '../../show.ts';

const LONGEST = 128;
const SHOWN = 64;
const OTHER = /[^a-z0-9_-]/gu;

/**
 * A name for a file or the last part of a URL, and never the same for two resources, also where upper and lower case or
 * two spellings of a letter are one. Lower-case letters, digits, `_` and `-` stay, each other byte becomes `~` and two
 * hexadecimal digits: `shop/pears` is `shop~2fpears`. Above 128 characters the end is replaced by `.` and the SHA-256 of the
 * resource. At most 129 characters, all of them unreserved in URLs: nothing that encodes or signs one changes it.
 *
 * Throws `ConfigError` for what is no text, or has half a surrogate pair in it: all of these have the same bytes.
 */
export function fileName(resource: string): string {
  if (typeof resource !== 'string' || /\p{Surrogate}/u.test(resource)) {
    throw new ConfigError('resource', `is ${show(resource)}: must be a text without half a surrogate pair`);
  }
  const name = resource.replaceAll(OTHER, (character) =>
    Array.from(Buffer.from(character), (byte) => `~${byte.toString(16).padStart(2, '0')}`).join(''),
  );
  if (name.length <= LONGEST) return name;
  // No half of an escape at the cut.
  const shown = name.slice(0, SHOWN).replace(/~[0-9a-f]?$/, '');
  return `${shown}.${createHash('sha256').update(resource).digest('hex')}`;
}
