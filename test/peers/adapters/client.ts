import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis-5';
import type { LibraryOptions } from './library.ts';
import type { Surroundings } from './peer.ts';

/** As the libraries' pages make it: nothing is set. Failures are the library's to tell. */
export function clientFor(surroundings: Pick<Surroundings, 'storeUrl' | 'commandTimeoutMs'>): Redis {
  const client = new Redis(surroundings.storeUrl, timeoutOf(surroundings));
  client.on('error', () => {});
  return client;
}

/** For the one that was made for ioredis 5 and earlier. */
export function olderClientFor(surroundings: Pick<Surroundings, 'storeUrl' | 'commandTimeoutMs'>): Redis5 {
  const client = new Redis5(surroundings.storeUrl, timeoutOf(surroundings));
  client.on('error', () => {});
  return client;
}

function timeoutOf({ commandTimeoutMs }: Pick<Surroundings, 'commandTimeoutMs'>): { commandTimeout?: number } {
  return commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs };
}

/** The same, to be measured. */
export function measuredClient({ url }: LibraryOptions): Redis {
  return clientFor({ storeUrl: url, commandTimeoutMs: undefined });
}

export function olderMeasuredClient({ url }: LibraryOptions): Redis5 {
  return olderClientFor({ storeUrl: url, commandTimeoutMs: undefined });
}
