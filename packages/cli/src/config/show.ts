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
      return `a ${typeof value}`;
  }
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
