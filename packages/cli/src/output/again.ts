import type { ConnectionFlags } from '../connection.ts';
import { quoteWord } from './quote.ts';

/**
 * The connection flags that this command was given, to stand behind the commands that it proposes: pasted without them those
 * would ask another store, or under another prefix, and say that all is well. Begins with a space unless it is empty. A
 * password is left out.
 */
export function sameStore({ tls, cluster, ...flags }: ConnectionFlags): string {
  const { url, config, prefix, cacert, cert, key, sni } = flags;
  const words: string[] = [];
  if (config !== undefined) words.push('-c', config);
  if (url !== undefined) words.push('-u', withoutPassword(url));
  for (const [name, value] of Object.entries({ prefix, cacert, cert, key, sni })) {
    if (value !== undefined) words.push(`--${name}`, value);
  }
  if (tls === true) words.push('--tls');
  if (cluster === true) words.push('--cluster');
  return words.map((word) => ` ${quoteWord(word)}`).join('');
}

function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  if (url.password === '') return text;
  url.password = '';
  return url.href;
}
