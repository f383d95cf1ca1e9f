import type { CancelReply, CancelRequest } from '../../store/store.ts';
import { callOnResource } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, endTenure, endTick, QUEUE, RECORD, TICK, waiting } from './lua.ts';
import { fieldsOf, foreign } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log · 6 tick (only with a job)
 * ARGV  1 leaseId · 2 outcome: done, failed, aborted, not-started · 3 floor, a token · 4 history: exceptions, all
 *       5 tombstone, ms, 0 for none · 6 retention, ms, may be missing
 * Reply <leaseId> ended <failed> · <leaseId> nothing <failed> · <leaseId> foreign <failed> <index> <type>
 *
 * A tombstone is `<leaseId>:<until, µs>`; at most 8 in the record's field `cancelled`, separated by spaces, oldest first.
 */
const lua = `#!lua flags=allow-oom${RECORD}${waiting()}${TICK}${endTick('ARGV[6]')}${QUEUE}
if others then leave(id) end
if ARGV[5] ~= '0' then
  local kept = {}
  for name, till in string.gmatch(cancelled, '(%S+):(%d+)') do
    if name ~= id and tonumber(till) > now then kept[#kept + 1] = name .. ':' .. till end
  end
  kept[#kept + 1] = id .. ':' .. f('%.0f', now + ARGV[5] * 1000)
  cancelled = table.concat(kept, ' ', math.max(#kept - 7, 1))
  local was_stored = stored
  keep('cancelled', cancelled)
  -- A free record is not forgotten before its tombstone; one that is held is not forgotten at all.
  if was_stored then redis.call('PEXPIRE', rec, ARGV[5], 'GT') end
end
if present and lease_id == id and owner ~= '' then
  ${endTenure('ARGV[6]')}
  if others or turn ~= '' then open_turn() end
  ${EFFECTS}
  return id .. (held and ' ended ' or ' nothing ') .. failed
end
if turn == id then
  turn = ''
  redis.call('HDEL', rec, 'turn', 'turn_until_us')
  open_turn()
end
${EFFECTS}
return id .. ' nothing ' .. failed
`;

export const cancelScript: Script = script('cancel', lua);

export function cancelArgs(record: string, request: CancelRequest): ScriptArgs {
  const { job } = request;
  const args = callOnResource(cancelScript.sha, record, job);
  args.push(request.leaseId, request.outcome, String(request.floor), request.history, String(request.tombstoneMs));
  if (request.retentionMs !== undefined) args.push(String(request.retentionMs));
  return args;
}

export function cancelReply(reply: unknown, args: ScriptArgs, request: CancelRequest): CancelReply {
  const fields = fieldsOf(cancelScript, reply, request.leaseId);
  if (fields[0] === 'ended' || fields[0] === 'nothing') return { kind: fields[0] };
  if (fields[0] === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(cancelScript, fields);
}
