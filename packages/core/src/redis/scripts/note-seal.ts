import type { NoteSealRequest } from '../../store/store.ts';
import { logKey } from '../keys.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { RETENTION_MS } from './lua.ts';
import { foreignKey } from './reply.ts';

/**
 * KEYS  1 log
 * ARGV  1 what the fences were sealed at, a token · 2 operator and reason
 * Reply noted · foreign <type>
 *
 * An event of no lease: the record is not looked at, there may be none. Nothing goes that the owner might want kept.
 */
const lua = `#!lua
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'stream' then return { 'foreign', kind } end
local time = redis.call('TIME')
redis.call('XADD', KEYS[1], 'MAXLEN', '=', '64', '*', 'event', 'sealed', 'owner', '', 'fencing_token', ARGV[1],
  'at_us', string.format('%.0f', time[1] * 1000000 + time[2]), 'detail', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ${RETENTION_MS})
return { 'noted' }
`;

export const noteSealScript: Script = script('note-seal', lua);

export function noteSealArgs(record: string, { fencingToken, operator, reason }: NoteSealRequest): ScriptArgs {
  return [noteSealScript.sha, '1', logKey(record), String(fencingToken), `${operator}: ${reason}`];
}

export function noteSealReply(reply: unknown, args: ScriptArgs, { resource }: NoteSealRequest): void {
  const [kind, type] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (kind === 'foreign') throw foreignKey(resource, keyOf(args, 1), String(type));
  if (kind !== 'noted') throw new MalformedReply(noteSealScript, reply);
}
