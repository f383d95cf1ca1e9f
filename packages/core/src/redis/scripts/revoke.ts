import type { RevokeReply, RevokeRequest } from '../../store/store.ts';
import { logKey, parkedKey, queueKey, waitersKey } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, note, ownerOnly, RECORD } from './lua.ts';
import { fieldsOf, foreign, isLossReason, numberAt } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log; 2 to 4 are not looked at
 * ARGV  1 leaseId · 2 operator · 3 reason
 * Reply <leaseId> revoked <failed> <remaining, µs> · <leaseId> lost <failed> <reason>
 *       <leaseId> foreign <failed> <index of the key> <type found>
 *
 * Asked again it tells the owner again, which may not have heard it, and notes nothing more. The operator does not know
 * what the owner wants the log to keep, so nothing goes that it might want kept.
 */
const lua = `#!lua flags=allow-oom${RECORD}${ownerOnly('id')}
if expires <= now then return id .. ' lost 0 expired' end
if state ~= 'revoked' then
  redis.call('HSET', rec, 'term', 'revoked ' .. middle .. ' ' .. f('%.0f', expires))
  ${note({
    event: "'revoked'",
    owner: 'owner',
    token: 'r[3]',
    at: "f('%.0f', now)",
    keep: "'64'",
    detail: "ARGV[2] .. ': ' .. ARGV[3]",
    leaseId: 'id',
  })}
end
local channel = redis.call('HGET', rec, 'channel') or ''
if channel ~= '' then
  effects = effects or {}
  effects[#effects + 1] = { 'PUBLISH', channel, 'revoked 0 ' .. id .. ' ' .. rec }
end
${EFFECTS}
return id .. ' revoked ' .. failed .. ' ' .. f('%.0f', expires - now)
`;

export const revokeScript: Script = script('revoke', lua);

export function revokeArgs(record: string, request: RevokeRequest): ScriptArgs {
  const keys = [record, queueKey(record), waitersKey(record), parkedKey(record), logKey(record)];
  return [revokeScript.sha, '5', ...keys, request.leaseId, request.operator, request.reason];
}

export function revokeReply(reply: unknown, args: ScriptArgs, request: RevokeRequest): RevokeReply {
  const fields = fieldsOf(revokeScript, reply, request.leaseId);
  const [kind, , reason] = fields;
  if (kind === 'revoked') return { kind, remainingMs: numberAt(fields, 2) / 1000 };
  if (kind === 'lost' && isLossReason(reason)) return { kind, reason };
  if (kind === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(revokeScript, fields);
}
