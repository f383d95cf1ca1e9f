import type { CancelReply, CancelRequest } from '../../store/store.ts';
import { logKey, parkedKey, queueKey, tickKey, waitersKey } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { CLOCK, EFFECTS, END_TICK, KEEP, QUEUE, RECORD, TENURE, TICK, WAITING } from './lua.ts';
import { foreign, type Fields } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log · 6 tick (only with a job)
 * ARGV  1 leaseId · 2 outcome: done, failed, aborted, not-started · 3 floor, a token · 4 tombstone, ms, 0 for none
 * Reply <leaseId> ended <failed> · <leaseId> nothing <failed> · <leaseId> foreign <failed> <index> <type>
 *
 * A tombstone is `<leaseId>:<until, µs>`; at most 8 in the record's field `cancelled`, separated by spaces, oldest first.
 */
const lua = `#!lua flags=allow-oom
${CLOCK}${RECORD}${WAITING}${TICK}
local outcome = ARGV[2]
${END_TICK}${EFFECTS}${KEEP}${QUEUE}${TENURE}
if others then
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
end
if ARGV[4] ~= '0' then
  local kept = {}
  for name, till in string.gmatch(cancelled, '(%S+):(%d+)') do
    if name ~= id and tonumber(till) > now then kept[#kept + 1] = name .. ':' .. till end
  end
  kept[#kept + 1] = id .. ':' .. f(now + ARGV[4] * 1000)
  keep('cancelled', table.concat(kept, ' ', math.max(#kept - 7, 1)))
end
if present and lease_id == id and owner ~= '' then
  local held = end_tenure(tonumber(ARGV[3]))
  return id .. (held and ' ended ' or ' nothing ') .. failed()
end
if turn == id then
  turn = ''
  redis.call('HDEL', rec, 'turn', 'turn_until_us')
  open_turn()
end
return id .. ' nothing ' .. failed()
`;

export const cancelScript: Script = script('cancel', lua);

export function cancelArgs(record: string, request: CancelRequest): ScriptArgs {
  const { job } = request;
  const args = [
    cancelScript.sha,
    job === undefined ? '5' : '6',
    record,
    queueKey(record),
    waitersKey(record),
    parkedKey(record),
    logKey(record),
  ];
  if (job !== undefined) args.push(tickKey(record, job));
  args.push(request.leaseId, request.outcome, String(request.floor), String(request.tombstoneMs));
  return args;
}

export function cancelReply(fields: Fields, args: ScriptArgs, request: CancelRequest): CancelReply {
  if (fields[0] === 'ended' || fields[0] === 'nothing') return { kind: fields[0] };
  if (fields[0] === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(cancelScript, fields);
}
