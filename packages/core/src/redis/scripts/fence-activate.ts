import type { Grant } from '../../fence/fence.ts';
import { script, type Script, type ScriptArgs } from '../script.ts';
import { ADMIT } from './fence-lua.ts';

/**
 * KEYS  1 the fence
 * ARGV  1 token · 2 leaseId · 3 whether to tell the eviction policy: 1, 0
 * Reply a list: admitted <policy, empty if not asked for or not permitted> · or as in fence-lua.ts
 */
const lua = `#!lua flags=allow-oom
${ADMIT}
local policy = ''
if ARGV[3] == '1' then
  local info = redis.pcall('INFO', 'memory')
  if type(info) == 'string' then policy = string.match(info, 'maxmemory_policy:([%w-]+)') or '' end
end
return { 'admitted', policy }
`;

export const activateScript: Script = script('fence-activate', lua);

export function activateArgs(key: string, grant: Grant, askPolicy: boolean): ScriptArgs {
  return [activateScript.sha, '1', key, String(grant.fencingToken), grant.leaseId, askPolicy ? '1' : '0'];
}
