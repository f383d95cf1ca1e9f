import type { AdoptReply, AdoptRequest } from '../../store/store.ts';
import { callOnResource } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, FRESH_ONLY, IN_RANGE, keptEvents, note, ownerOnly, RECORD, TICK } from './lua.ts';
import { fieldsOf, foreign, grantOf, isLossReason, numberAt } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log · 6 tick (only with a job); 2 to 4 are not looked at
 *
 * ARGV  1 leaseId · 2 owner line · 3 owner JSON · 4 ttl, ms · 5 from, a leaseId · 6 channel, may be empty
 *       7 floor, a token · 8 history: exceptions, all
 *
 * Reply <leaseId> granted <failed> <token>, for the whole ttl · <leaseId> granted <failed> <token> <remaining, µs>, again
 *       with the tick they go on: <remaining, µs, - for the whole ttl> <attempt> <at, ms>
 *       <leaseId> spent <failed> · <leaseId> cancelled <failed> · <leaseId> out-of-range <failed> <token>
 *       <leaseId> lost <failed> <reason> · <leaseId> foreign <failed> <index of the key> <type found>
 *
 * Whoever waits goes on waiting: the resource was not free in between. So it may not fail on a full server either.
 */
const lua = `#!lua flags=allow-oom${RECORD}${TICK}${FRESH_ONLY}${ownerOnly('ARGV[5]')}
if not held then return id .. ' lost 0 expired' end
if state == 'revoked' then return id .. ' lost 0 revoked' end${IN_RANGE}
local at = f('%.0f', now)
local number = highest < now and at or f('%.0f', highest + 1)
redis.call('HSET', rec, 'prev_owner', owner, 'prev_token', r[3], 'prev_end', at, 'prev_reason', 'handed-over',
  'owner', ARGV[2], 'owner_json', ARGV[3], 'lease_id', id, 'fencing_token', number,
  'term', 'held ' .. ARGV[4] .. ' 0 ' .. at .. ' ' .. f('%.0f', now + ARGV[4] * 1000), 'acquired_us', at, 'channel', ARGV[6])
local claim = ''
if tick_at and tick_lease == ARGV[5] then
  claim = f(' - %.0f %.0f', tick_attempt, tick_at)
  redis.call('HSET', KEYS[6], 'lease_id', id, 'fencing_token', number, 'owner', ARGV[2])
  redis.call('HSET', rec, 'tick', id .. ' ' .. f('%.0f', tick_at) .. ' ' .. string.sub(KEYS[6], #rec + 7))
end
${note({
  event: "'adopted'",
  owner: 'ARGV[2]',
  token: 'number',
  at: 'at',
  keep: keptEvents('ARGV[8]'),
  leaseId: 'id',
})}
${EFFECTS}
return id .. ' granted ' .. failed .. ' ' .. number .. claim
`;

export const adoptScript: Script = script('adopt', lua);

export function adoptArgs(record: string, request: AdoptRequest): ScriptArgs {
  const { job } = request;
  const args = callOnResource(adoptScript.sha, record, job);
  args.push(
    request.leaseId,
    request.owner.line,
    request.owner.json,
    String(request.ttlMs),
    request.from,
    request.channel,
    String(request.floor),
    request.history,
  );
  return args;
}

export function adoptReply(reply: unknown, args: ScriptArgs, request: AdoptRequest): AdoptReply {
  const fields = fieldsOf(adoptScript, reply, request.leaseId);
  const [kind, , reason] = fields;
  if (kind === 'granted') return grantOf(fields, request.ttlMs);
  if (kind === 'spent' || kind === 'cancelled') return { kind };
  if (kind === 'out-of-range') return { kind, fencingToken: numberAt(fields, 2) };
  if (kind === 'lost' && isLossReason(reason)) return { kind, reason };
  if (kind === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(adoptScript, fields);
}
