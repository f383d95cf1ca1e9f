import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis-5';
import type { Surroundings } from './peer.ts';

/** As the libraries' pages make it: nothing is set. Failures are the library's to tell. */
export function clientFor(surroundings: Surroundings): Redis {
  const client = new Redis(surroundings.storeUrl, timeoutOf(surroundings));
  client.on('error', () => {});
  return client;
}

/** For the one that was made for ioredis 5 and earlier. */
export function olderClientFor(surroundings: Surroundings): Redis5 {
  const client = new Redis5(surroundings.storeUrl, timeoutOf(surroundings));
  client.on('error', () => {});
  return client;
}

function timeoutOf({ commandTimeoutMs }: Surroundings): { commandTimeout?: number } {
  return commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs };
}
