import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';

/** Where a server listens. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** `127.0.0.1:6379`, `[::1]:6379`. */
export function endpointText({ host, port }: Endpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Undefined for what is no address, such as the empty one of a server that is not known to its fellows yet. */
export function endpointOf(host: unknown, port: unknown): Endpoint | undefined {
  const number = Number(port);
  if (typeof host !== 'string' || host === '' || host === '?') return undefined;
  return Number.isInteger(number) && number >= 1 && number <= 65_535 ? { host, port: number } : undefined;
}

/** Throws `ConfigError(option)` for what is not `<host>:<port>`. */
export function parseEndpoint(option: string, text: unknown): Endpoint {
  const parts = typeof text === 'string' ? /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/@[\]]+)):(\d{1,5})$/.exec(text) : null;
  const endpoint = endpointOf(parts?.[1] ?? parts?.[2], parts?.[3]);
  if (endpoint === undefined) {
    throw new ConfigError(option, `has ${show(text)}: must be <host>:<port>, without user and password`);
  }
  return endpoint;
}
