import type { ForceReleaseReply, ForceReleaseRequest } from '../../store/store.ts';
import { callOnResource } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, note, ownerOnly, QUEUE, RECORD, RETAIN, waiting } from './lua.ts';
import { fieldsOf, foreign, isLossReason, numberAt } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log
 * ARGV  1 leaseId · 2 token · 3 extensions · 4 how long it must have run out, ms, or empty · 5 floor, a token · 6 operator
 *       7 reason
 * Reply <leaseId> released <failed> · <leaseId> running 0 <until it may be, µs> · <leaseId> changed 0
 *       <leaseId> lost 0 <reason> · <leaseId> foreign <failed> <index of the key> <type found>
 *
 * What it was decided on is compared before anything is written. The operator does not know what the owner wants the log to
 * keep, so nothing goes that it might want kept.
 */
const lua = `#!lua flags=allow-oom${RECORD}${waiting()}${ownerOnly('id')}
if token ~= tonumber(ARGV[2]) then return id .. ' lost 0 superseded' end
if tonumber(string.match(middle, ' (%d+) ')) ~= tonumber(ARGV[3]) then return id .. ' changed 0' end
if ARGV[4] ~= '' and now < expires + ARGV[4] * 1000 then
  return id .. ' running 0 ' .. f('%.0f', expires + ARGV[4] * 1000 - now)
end
local ended = f('%.0f', math.min(expires, now))
${note({
  event: "'forced'",
  owner: 'owner',
  token: 'r[3]',
  at: "f('%.0f', now)",
  keep: "'64'",
  detail: "ARGV[6] .. ': ' .. ARGV[7]",
  leaseId: 'id',
})}
redis.call('HSET', rec, 'owner', '', 'term', 'over ' .. middle .. ' ' .. ended, 'prev_owner', owner,
  'prev_token', r[3], 'prev_end', ended, 'prev_reason', 'force-released')
${RETAIN}
local floor = tonumber(ARGV[5])
-- One out of range would shut out every later owner: it is left to the next acquire, which says so.
if floor > token and floor < now + 86400000000 then redis.call('HSET', rec, 'fencing_token', ARGV[5]) end
local channel = redis.call('HGET', rec, 'channel') or ''
if channel ~= '' then
  effects[#effects + 1] = { 'PUBLISH', channel, 'revoked 0 ' .. id .. ' ' .. rec }
end
if others or turn ~= '' then
  ${QUEUE}
  open_turn()
end
${EFFECTS}
return id .. ' released ' .. failed
`;

export const forceReleaseScript: Script = script('force-release', lua);

export function forceReleaseArgs(record: string, request: ForceReleaseRequest): ScriptArgs {
  const { leaseId, fencingToken, extensions, elapsedMs, floor, operator, reason } = request;
  const args = callOnResource(forceReleaseScript.sha, record, undefined);
  args.push(leaseId, String(fencingToken), String(extensions), elapsedMs === null ? '' : String(elapsedMs));
  args.push(String(floor), operator, reason);
  return args;
}

export function forceReleaseReply(reply: unknown, args: ScriptArgs, request: ForceReleaseRequest): ForceReleaseReply {
  const fields = fieldsOf(forceReleaseScript, reply, request.leaseId);
  const [kind, , reason] = fields;
  if (kind === 'released' || kind === 'changed') return { kind };
  if (kind === 'running') return { kind, remainingMs: numberAt(fields, 2) / 1000 };
  if (kind === 'lost' && isLossReason(reason)) return { kind, reason };
  if (kind === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(forceReleaseScript, fields);
}
