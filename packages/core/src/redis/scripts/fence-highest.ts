import { script, type Script, type ScriptArgs } from '../script.ts';
import { STORED } from './fence-lua.ts';

/**
 * KEYS  1 the fence
 * ARGV  none
 * Reply a list: none <policy> · highest <token> <leaseId, empty if sealed> <policy> · foreign <type>; the policy is how the server
 *       evicts, empty if that is not permitted to know
 */
const lua = `#!lua flags=no-writes
${STORED}
local policy = ''
local info = redis.pcall('INFO', 'memory')
if type(info) == 'string' then policy = string.match(info, 'maxmemory_policy:([%w-]+)') or '' end
if not highest then return { 'none', policy } end
return { 'highest', stored[1], admitted, policy }
`;

export const highestScript: Script = script('fence-highest', lua);

export function highestArgs(key: string): ScriptArgs {
  return [highestScript.sha, '1', key];
}
