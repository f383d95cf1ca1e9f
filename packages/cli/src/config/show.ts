import { shorten } from './problem.ts';

/** A value in a message: short, on one line, without the passwords of URLs. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(shorten(withoutCredentials(value)));
    case 'number':
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? 'empty' : Array.isArray(value) ? 'a list' : 'a map';
    default:
      return kindOfValue(value);
  }
}

/** `a string`, `an object`, `a list`, `undefined`: what a value is, without what is in it. */
export function kindOfValue(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** Without what may be a user, a password or a key: what is before an `@`, and what follows a `?`. */
function withoutCredentials(text: string): string {
  const at = text.lastIndexOf('@');
  const scheme = text.indexOf('://');
  if (scheme < 0) return at > 0 && text.includes(':') ? `…${text.slice(at)}` : text;
  const from = scheme + '://'.length;
  const masked = at > from ? `${text.slice(0, from)}…${text.slice(at)}` : text;
  const query = masked.indexOf('?');
  return query < 0 ? masked : `${masked.slice(0, query)}?…`;
}
