import { script, type Script, type ScriptArgs } from '../script.ts';
import { STORED } from './fence-lua.ts';

/**
 * KEYS  1 the fence
 * ARGV  none
 * Reply a list: none · highest <token> <leaseId, empty if sealed> · foreign <type>
 */
const lua = `#!lua flags=no-writes
${STORED}
if not highest then return { 'none' } end
return { 'highest', stored[1], admitted }
`;

export const highestScript: Script = script('fence-highest', lua);

export function highestArgs(key: string): ScriptArgs {
  return [highestScript.sha, '1', key];
}
