import { readFileSync } from 'node:fs';

/** Of this package, which is one folder up both from the sources and from what is built of them. */
export function ownVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return (manifest as { readonly version: string }).version;
}
