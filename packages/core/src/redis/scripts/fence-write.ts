import type { Grant } from '../../fence/fence.ts';
import { script, type Script, type ScriptArgs } from '../script.ts';
import type { Numbered } from '../write-numbers.ts';
import { NUMBERED } from './fence-lua.ts';

/**
 * KEYS  1 the fence · 2… the keys that the commands name
 * ARGV  1 to 5 as in fence-lua.ts · then for each command: the number of its words, its words
 * Reply a list: done <the replies, a list> · failed <index of the command, from 1> <error>
 *       · or as in fence-lua.ts, before any command
 *
 * Not allow-oom: the commands are the caller's, and a full server refuses them all together with the guard.
 *
 * The first command that fails ends the script: what comes after it is not run, what came before it stays. Redis does
 * not roll back.
 */
const lua = `#!lua
${NUMBERED}
note('')
local replies, at = {}, 6
while ARGV[at] do
  local words = tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
  if type(reply) == 'table' and reply.err then
    local index = tostring(#replies + 1)
    note('f' .. index)
    return { 'failed', index, reply.err }
  end
  replies[#replies + 1] = reply
  at = at + words + 1
end
return { 'done', replies }
`;

export const writeScript: Script = script('fence-write', lua);

export function writeArgs(
  key: string,
  grant: Grant,
  numbered: Numbered,
  keys: readonly string[],
  commands: readonly (readonly string[])[],
): ScriptArgs {
  const args = numberedArgs(writeScript, key, grant, numbered, keys);
  for (const words of commands) args.push(String(words.length), ...words);
  return args;
}

/** What every call with a number begins with. */
export function numberedArgs(
  called: Script,
  key: string,
  { fencingToken, leaseId }: Grant,
  { id, number, lowest }: Numbered,
  keys: readonly string[] = [],
): ScriptArgs {
  const guard = [String(fencingToken), leaseId, id, String(number), String(lowest)];
  return [called.sha, String(1 + keys.length), key, ...keys, ...guard];
}
