import { inspect } from 'node:util';

import { pino } from 'pino';

const MAX_SHOWN = 500;

/**
 * What a handler threw, as something that whoever handles errors can read: itself if it is an object that can be read, otherwise an error
 * that says what it was. Anything can be thrown: null, a text, a proxy, an error with a getter that throws.
 */
export function readable(thrown: unknown): Error {
  if (typeof thrown !== 'object' || thrown === null) {
    return new Error(`no Error was thrown but ${inspect(thrown).slice(0, MAX_SHOWN)}`);
  }
  try {
    void (thrown instanceof Error);
    // Reads all that a line of the log shows.
    pino.stdSerializers.err(thrown as Error);
    return thrown as Error;
  } catch {
    return new Error('what was thrown cannot be read: it throws when it is looked at');
  }
}
