import { createHash } from 'node:crypto';

const LONGEST = 128;
const SHOWN = 64;
const PLAIN = /[^a-z0-9_-]/gu;

/**
 * A file name for a qualified name, and never the same for two of them, also where upper and lower case or two spellings
 * of a letter are one: lower-case letters, digits, `_` and `-` stay, all else becomes `%` and the hexadecimal digits of its
 * bytes (`decodeURIComponent` has the name back). Above 128 characters the end is replaced by `~` and the SHA-256 of the
 * name. At most 129 characters, of `a-z 0-9 _ - % ~`.
 */
export function fileName(resource: string): string {
  const name = resource.replaceAll(PLAIN, (character) =>
    Array.from(Buffer.from(character), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
  if (name.length <= LONGEST) return name;
  // No half of an escape at the cut.
  const shown = name.slice(0, SHOWN).replace(/%[0-9a-f]?$/, '');
  return `${shown}~${createHash('sha256').update(resource).digest('hex')}`;
}
