import { StoreVersionError } from '../errors.ts';
import { isErrorReply } from './failure.ts';
import type { OwnClient } from './client.ts';

/** Loads only where scripts may declare flags, which is what we need 7.0 for; refused while a server is loading its data. */
const FLAGGED = '#!lua flags=no-writes\nreturn 1';

/**
 * Asks a server that has just accepted us whether it can serve us, and resolves with its INFO, section server, which is
 * empty if it is not permitted. Rejects with `StoreVersionError` if it is too old, or
 * with what the server said (no rights, loading, …).
 */
export async function probe(own: OwnClient, where: string): Promise<string> {
  const [info, flagged] = await Promise.allSettled([own.send('info', ['server']), own.send('eval', [FLAGGED, '0'])]);
  const version = info.status === 'fulfilled' ? /redis_version:(\d+)\.\S*/.exec(String(info.value)) : null;
  if (version !== null && Number(version[1]) < 7) throw tooOld(where, version[0].slice('redis_version:'.length));
  if (flagged.status === 'fulfilled') return info.status === 'fulfilled' ? String(info.value) : '';
  // What an older server says to the first line of the script.
  if (isErrorReply(flagged.reason) && /compil|unexpected symbol|shebang/i.test(flagged.reason.message)) {
    throw tooOld(where, 'of a version that does not know script flags', flagged.reason);
  }
  throw flagged.reason;
}

function tooOld(where: string, version: string, cause?: unknown): StoreVersionError {
  return new StoreVersionError(`${where} is ${version}; Leasehold needs Redis 7.0 or Valkey 7.2, or later`, cause);
}
