import type { RedisServerSettings, TlsSettings } from './settings.ts';

const NO_FILES: TlsSettings = { ca: undefined, cert: undefined, key: undefined, servername: undefined };

/** What a URL that has been checked says. */
export function serverOfUrl(url: URL): RedisServerSettings {
  return {
    kind: 'server',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1',
    port: Number(url.port || '6379'),
    db: Number(url.searchParams.get('db') ?? url.pathname.slice(1)),
    username: decodeURIComponent(url.username) || undefined,
    password: decodeURIComponent(url.password) || undefined,
    tls: url.protocol === 'rediss:' ? NO_FILES : undefined,
  };
}

/** Whether it is the thing itself, not the file that it is in. */
export function isPem(text: string): boolean {
  return text.trimStart().startsWith('-----BEGIN ');
}
