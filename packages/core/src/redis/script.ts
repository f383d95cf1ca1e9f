import { createHash } from 'node:crypto';

/** A Lua script, known to the server by the SHA-1 of its text. */
export interface Script {
  /** For messages. */
  readonly name: string;
  readonly lua: string;
  readonly sha: string;
}

export function script(name: string, lua: string): Script {
  return { name, lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/**
 * What follows EVALSHA on the wire: the SHA, the number of keys, the keys, the arguments. All strings, because not every
 * client takes numbers. A file in `scripts/` makes one for its script.
 */
export type ScriptArgs = string[];

/** The same call for a server that has not seen the script: what follows EVAL. */
export function withText(called: Script, args: ScriptArgs): ScriptArgs {
  return [called.lua, ...args.slice(1)];
}

/** KEYS[index] of the call, counted from 1 as in Lua. */
export function keyOf(args: ScriptArgs, index: number): string {
  return args[1 + index] ?? '';
}

/** A reply that cannot be the answer to the request: it is not believed, and neither is the connection it came by. */
export class MalformedReply extends Error {
  constructor(called: Script, reply: unknown) {
    super(`the reply to ${called.name} is not one: ${JSON.stringify(reply)?.slice(0, 120)}`);
  }
}
