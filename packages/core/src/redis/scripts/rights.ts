import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';

/**
 * Whether the user may, asked of the server itself without doing any of it. No keys: what a user may do with keys is among
 * what is asked.
 *
 * ARGV  1 a list of commands, each a list of words, as JSON
 * Reply for each of them 1 or 0; -1 for one that this server does not know
 */
const lua = `#!lua flags=no-writes
local reply = {}
for i, words in ipairs(cjson.decode(ARGV[1])) do
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  reply[i] = known and (may and 1 or 0) or -1
end
return reply
`;

export const rightsScript: Script = script('rights', lua);

export function rightsArgs(commands: readonly (readonly string[])[]): ScriptArgs {
  return [rightsScript.sha, '0', JSON.stringify(commands)];
}

/** In the order of the commands; what a server does not know cannot be missing. */
export function rightsReply(reply: unknown, _args: ScriptArgs, asked: number): readonly boolean[] {
  if (!Array.isArray(reply) || reply.length !== asked) throw new MalformedReply(rightsScript, reply);
  return reply.map((may) => Number(may) !== 0);
}
