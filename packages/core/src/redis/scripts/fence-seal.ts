import { script, type Script, type ScriptArgs } from '../script.ts';
import { RANGE, STORED } from './fence-lua.ts';

/**
 * KEYS  1 the fence
 * ARGV  1 token: every grant up to it is stale from now on
 * Reply a list: sealed · or as in fence-lua.ts, never stale: a seal below the highest changes nothing
 */
const lua = `#!lua flags=allow-oom
${STORED}${RANGE}
if not highest or highest <= token then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'lease_id', '')
  redis.call('PERSIST', KEYS[1])
end
return { 'sealed' }
`;

export const sealScript: Script = script('fence-seal', lua);

export function sealArgs(key: string, fencingToken: number): ScriptArgs {
  return [sealScript.sha, '1', key, String(fencingToken)];
}
