import type { Grant } from '../../fence/fence.ts';
import { script, type Script, type ScriptArgs } from '../script.ts';
import type { Numbered } from '../write-numbers.ts';
import { NUMBERED } from './fence-lua.ts';
import { numberedArgs } from './fence-write.ts';

/**
 * Finds out what became of a write that had no answer; one that was not carried out never will be from now on.
 *
 * KEYS  1 the fence
 * ARGV  1 to 5 as in fence-lua.ts
 * Reply a list: void · again <mark>: it was carried out · or as in fence-lua.ts
 */
const lua = `#!lua flags=allow-oom
${NUMBERED}
note('v')
return { 'void' }
`;

export const settleScript: Script = script('fence-settle', lua);

export function settleArgs(key: string, grant: Grant, numbered: Numbered): ScriptArgs {
  return numberedArgs(settleScript, key, grant, numbered);
}
