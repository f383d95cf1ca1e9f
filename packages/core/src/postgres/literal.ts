import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';

/**
 * A text as SQL that says the same to every client: whatever is not a letter, a digit, _ or - is written by its code point,
 * so that no quote, backslash, `?`, `:name`, `$1` or percent sign is left for a client to read as its own.
 *
 * Throws `ConfigError` naming `what`, for what PostgreSQL cannot store: NUL, and half a surrogate pair.
 */
export function literal(what: string, text: string): string {
  if (text.includes('\0') || /\p{Surrogate}/u.test(text)) {
    throw new ConfigError(what, `${show(text)} has NUL or half a surrogate pair, which PostgreSQL cannot store`);
  }
  return `E'${text.replace(/[^A-Za-z0-9_-]/gu, codePoint)}'`;
}

function codePoint(character: string): string {
  const hex = (character.codePointAt(0) as number).toString(16).toUpperCase();
  return hex.length > 4 ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`;
}
