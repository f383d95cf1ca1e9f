import type { Grant } from '../../fence/fence.ts';
import { script, type Script, type ScriptArgs } from '../script.ts';
import type { Numbered } from '../write-numbers.ts';
import { NUMBERED } from './fence-lua.ts';
import { numberedArgs } from './fence-write.ts';

/**
 * The guard in front of a body that the caller wrote.
 *
 * KEYS  1 the fence · 2… the body's KEYS
 * ARGV  1 to 5 as in fence-lua.ts · 6… the body's ARGV
 * Reply a list: done <what the body returned> · failed <error> · or as in fence-lua.ts, before anything of the body
 *
 * The guard is the first statement. Whatever the body's text is, even if it ends the function that it is put into, none
 * of it runs before the guard has let the grant pass; nor does it see the guard's variables.
 */
const before = `#!lua
local refusal, note, KEYS, ARGV = (function()
${NUMBERED}
note('')
return nil, note, { unpack(KEYS, 2) }, { unpack(ARGV, 6) }
end)()
if refusal then return refusal end
local body = function(refusal, note)
`;

const after = `
end
local isDone, reply = pcall(body)
if isDone and not (type(reply) == 'table' and reply.err) then return { 'done', reply } end
note('f1')
return { 'failed', tostring(type(reply) == 'table' and reply.err or reply) }
`;

/** Lines of the script before the first of the body. */
const LINES = before.split('\n').length - 1;

export function bodyScript(lua: string): Script {
  return script('a fenced Lua body', before + lua + after);
}

export function bodyArgs(
  called: Script,
  key: string,
  grant: Grant,
  numbered: Numbered,
  keys: readonly string[],
  args: readonly string[],
): ScriptArgs {
  return [...numberedArgs(called, key, grant, numbered, keys), ...args];
}

/** What Redis said of the script, with the lines counted from the first of the body. */
export function ofBody(said: string): string {
  return said.replaceAll(/user_script:(\d+)/g, (_, line: string) => `line ${Number(line) - LINES}`);
}
