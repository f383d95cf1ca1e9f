import type { AcquireReply, AcquireRequest } from '../../store/store.ts';
import { callOnResource, decodeName } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, FRESH_ONLY, IN_RANGE, keptEvents, note, NOW_TEXT, QUEUE, RECORD, TICK, waiting } from './lua.ts';
import { fieldsOf, foreign, grantOf, numberAt, type Fields } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log · 6 tick (only with a tick request)
 *
 * ARGV  1 leaseId · 2 owner line · 3 owner JSON · 4 ttl, ms · 5 channel, may be empty · 6 mode: try, wait, park
 *       7 floor, a token · 8 replaces, a leaseId, may be empty · 9 waitRefresh, ms · 10 quarantine, ms
 *       11 history: exceptions, all
 *       without a tick: 12 spare tokens, may be missing
 *       with a tick: 12 at, ms since 1970, empty without a schedule · 13 starting deadline, ms, without a schedule min hold
 *       14 max ahead, ms · 15 retry: how many times more · 16 retention of the tick, ms, may be missing
 *       All from 6 on are missing if none of them says more than: try, 0, nothing, whatever, 0, exceptions. Each argument
 *       costs the client as much as a field of a record costs the server, and nearly every call is that one.
 *
 * Reply, one string, its parts separated by one space:
 *       <leaseId> granted <failed> <token>, for the whole ttl · <leaseId> granted <failed> <token> <remaining, µs>, again
 *       with spare tokens it goes on: - <how many>
 *       with a tick they go on: <remaining, µs, - for the whole ttl> <attempt> <at, ms>
 *       <leaseId> no <failed> <held, turn, quarantine> <remaining, µs> <position, -1 unless queued> <token, 0: no holder>
 *         <its job, - for none> <owner>
 *       <leaseId> tick <failed> <already-ran, superseded, too-late, clock-ahead> <ahead, µs> <remaining, µs>
 *       <leaseId> spent <failed> · <leaseId> cancelled <failed> · <leaseId> out-of-range <failed> <token>
 *       <leaseId> foreign <failed> <index of the key> <type found>
 *
 * The only script that may run out of memory, and the only one by which one becomes owner.
 */
const lua = `#!lua${RECORD}${waiting("owner ~= ''")}${TICK}
-- A deadline farther ahead than it can have been set: the clock went back.
if owner ~= '' and expires > now + ttl * 1000 then
  expires = now + ttl * 1000
  redis.call('HSET', rec, 'term', state .. ' ' .. middle .. ' ' .. f('%.0f', expires))
end${FRESH_ONLY}${IN_RANGE}
local replacing = held and (ARGV[8] or '') ~= '' and lease_id == ARGV[8] and state == 'held'
local tick_carried, claim_at, attempt = false, nil, 1
if KEYS[6] then
  claim_at = tonumber(ARGV[12])
  tick_carried = replacing and tick_lease == ARGV[8] and (not claim_at or tick_at == claim_at)
  if tick_carried then
    claim_at, attempt = tick_at, tick_attempt
  else
    local over = tick_at and (tick_status == 'done' or tick_attempt > tonumber(ARGV[15]))
    local about, left, refused = claim_at, 0, nil
    if claim_at then
      if tick_at == claim_at then attempt = tick_attempt + 1 end
      if tick_at and tick_at > claim_at then
        refused = 'superseded'
      elseif tick_at == claim_at and over then
        refused = 'already-ran'
      elseif now > (claim_at + ARGV[13]) * 1000 then
        refused = 'too-late'
      elseif claim_at * 1000 > now + ARGV[14] * 1000 then
        refused, left = 'clock-ahead', claim_at * 1000 - now
      end
    else
      claim_at = math.floor(now / 1000)
      if tick_at then
        if tick_at > claim_at then
          -- Farther ahead than it can have been set: the clock went back.
          tick_at = claim_at
          redis.call('HSET', KEYS[6], 'at', f('%.0f', tick_at))
        end
        about, left = tick_at, (tick_at + ARGV[13]) * 1000 - now
        if left > 0 then
          attempt = tick_attempt + 1
          if over then refused = 'already-ran' end
        end
      end
    end
    if refused then
      local most = 9007199254740991
      local ahead = math.max(-most, math.min(about * 1000 - now, most))
      return id .. ' tick 0 ' .. refused .. f(' %.0f %.0f', ahead, math.min(left, most))
    end
  end
end

if not replacing and (held or others or not present and (ARGV[10] or '0') ~= '0') then
  -- Somebody has it, or waits, or may have had it before the server lost its data.
  ${QUEUE}
  local function crowd()
    if stored and not r[7] then redis.call('HSET', rec, 'crowd', '1') end
  end
  local function lasting(key, ms)
    -- Not greater: it lasts longer, or for ever because it is new.
    if redis.call('PEXPIRE', key, ms, 'GT') == 0 then redis.call('PEXPIRE', key, ms, 'NX') end
  end
  local function stand(reason, remaining, holder_token, holder)
    local position, lasts = -1, 3 * (ARGV[9] or 0)
    local life = f('%.0f', now + lasts * 1000) .. ' ' .. f('%.0f', lasts)
    if ARGV[6] == 'wait' then
      local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
      if last[1] ~= id then
        -- Whoever is there already keeps the place.
        redis.call('ZADD', KEYS[2], 'NX', f('%.0f', math.max(now, (last[2] or 0) + 1)), id)
      end
      redis.call('HSET', KEYS[3], id, life .. ' ' .. ARGV[5])
      lasting(KEYS[2], f('%.0f', 2 * lasts))
      lasting(KEYS[3], f('%.0f', 2 * lasts))
      crowd()
      position = redis.call('ZRANK', KEYS[2], id)
    elseif ARGV[6] == 'park' and ARGV[5] ~= '' then
      redis.call('HSET', KEYS[4], ARGV[5], life)
      lasting(KEYS[4], f('%.0f', 2 * lasts))
      crowd()
    end
    ${EFFECTS}
    return id .. ' no ' .. failed .. ' ' .. reason .. ' ' .. f('%.0f', remaining) .. ' ' .. position .. ' ' ..
      holder_token .. ' ' .. holder
  end

  if held then
    local more = redis.call('HMGET', rec, 'tick', 'spare_tokens', 'channel')
    local whose, job = string.match(more[1] or '', '^(%S+) %S+ (%S+)$')
    if more[2] == lease_id then tell(more[3] or '', 'wanted', 0, lease_id) end
    return stand('held', expires - now, r[3], (whose == lease_id and job or '-') .. ' ' .. owner)
  end
  if not present then
    if (ARGV[10] or '0') ~= '0' then return stand('quarantine', ARGV[10] * 1000, '0', '- ') end
    ttl = tonumber(ARGV[4])
  end
  local first = head()
  if first and first ~= id then
    if turn == first then
      -- Without a lease it was opened by somebody else's ttl: whoever asks with a shorter one does not cut it.
      local turn_until = now + (present and claim_ms() or 500) * 1000
      local kept = tonumber(redis.call('HGET', rec, 'turn_until_us') or '') or now
      if kept > turn_until then
        redis.call('HSET', rec, 'turn_until_us', f('%.0f', turn_until))
      else
        turn_until = kept
      end
      -- A missed turn opens the resource to whoever asks, so that turns never cascade.
      if turn_until <= now then
        leave(first)
        first = nil
      end
      if first then return stand('turn', turn_until - now, '0', '- ') end
    else
      open_turn()
      return stand('turn', claim_ms() * 1000, '0', '- ')
    end
  end
end

local at = ${NOW_TEXT}
local number = highest < now and at or f('%.0f', highest + 1)
local last_number, more = number, ''
if ARGV[12] and not KEYS[6] then
  local wanted = false
  if others then
    wanted = redis.call('EXISTS', KEYS[4]) == 1
    for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, 1)) do wanted = wanted or name ~= id end
  end
  if not wanted then
    last_number = f('%.0f', math.max(now, highest + 1) + ARGV[12])
    more = ' - ' .. ARGV[12]
    redis.call('HSET', rec, 'spare_tokens', id)
  end
end
if owner ~= '' then
  redis.call('HSET', rec, 'prev_owner', owner, 'prev_token', r[3], 'prev_end', f('%.0f', held and now or expires),
    'prev_reason', held and 'replaced' or 'expired')
  ${note({
    event: "held and 'refused' or 'expired'",
    owner: 'owner',
    token: 'r[3]',
    at: "f('%.0f', held and now or expires)",
    keep: keptEvents('ARGV[11]'),
    leaseId: 'lease_id',
    retention: 'ARGV[16]',
  })}
end
redis.call('HSET', rec, 'owner', ARGV[2], 'owner_json', ARGV[3], 'lease_id', id, 'fencing_token', last_number,
  'term', 'held ' .. ARGV[4] .. ' 0 ' .. at .. ' ' .. f('%.0f', now + ARGV[4] * 1000), 'acquired_us', at, 'channel', ARGV[5])
if stored then redis.call('PERSIST', rec) end
if turn ~= '' then redis.call('HDEL', rec, 'turn', 'turn_until_us') end
if others then
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
  if not r[7] then redis.call('HSET', rec, 'crowd', '1') end
end
if KEYS[6] then
  if tick_at and not tick_carried then
    local p = redis.call('HMGET', KEYS[6], 'at', 'status', 'lease_id', 'fencing_token', 'owner')
    redis.call('HSET', KEYS[6], 'prev_at', p[1], 'prev_status', p[2], 'prev_lease_id', p[3],
      'prev_token', p[4] or '', 'prev_owner', p[5] or '', 'prev_attempt', f('%.0f', tick_attempt))
  end
  local at_text, attempt_text = f('%.0f', claim_at), f('%.0f', attempt)
  more = ' - ' .. attempt_text .. ' ' .. at_text
  redis.call('HSET', KEYS[6], 'at', at_text, 'status', 'claimed', 'lease_id', id, 'fencing_token', number,
    'owner', ARGV[2], 'attempt', attempt_text)
  if ARGV[16] then
    redis.call('HSET', KEYS[6], 'retention_ms', ARGV[16])
    redis.call('PEXPIRE', KEYS[6], ARGV[16])
  elseif tick_kept then
    redis.call('HDEL', KEYS[6], 'retention_ms')
    redis.call('PERSIST', KEYS[6])
  end
  -- For the log. With the leaseId, so that who claims none need not clear it; no character of a job's name is escaped.
  redis.call('HSET', rec, 'tick', id .. ' ' .. at_text .. ' ' .. string.sub(KEYS[6], #rec + 7))
end
if ARGV[11] == 'all' then
  ${note({
    event: "'acquired'",
    owner: 'ARGV[2]',
    token: 'last_number',
    at: 'at',
    keep: "'64'",
    leaseId: 'id',
    retention: 'ARGV[16]',
  })}
end
${EFFECTS}
return id .. ' granted ' .. failed .. ' ' .. number .. more
`;

export const acquireScript: Script = script('acquire', lua);

/** `record` is the key of the resource's record. */
export function acquireArgs(record: string, request: AcquireRequest): ScriptArgs {
  const { tick, spareTokens = 0 } = request;
  const args = callOnResource(acquireScript.sha, record, tick?.job);
  args.push(request.leaseId, request.owner.line, request.owner.json, String(request.ttlMs), request.channel);
  if (tick === undefined && spareTokens === 0 && isPlain(request)) return args;
  args.push(
    request.mode,
    String(request.floor),
    request.replaces,
    String(request.waitRefreshMs),
    String(request.quarantineMs),
    request.history,
  );
  if (tick !== undefined) {
    if (tick.at === null) args.push('', String(tick.minHoldMs), '0');
    else args.push(String(tick.at), String(tick.startingDeadlineMs), String(tick.maxAheadMs));
    args.push(String(tick.retry));
    if (request.retentionMs !== undefined) args.push(String(request.retentionMs));
  } else if (spareTokens > 0) {
    args.push(String(spareTokens));
  }
  return args;
}

function isPlain({ mode, floor, replaces, quarantineMs, history }: AcquireRequest): boolean {
  return mode === 'try' && floor === 0 && replaces === '' && quarantineMs === 0 && history === 'exceptions';
}

export function acquireReply(reply: unknown, args: ScriptArgs, request: AcquireRequest): AcquireReply {
  const fields = fieldsOf(acquireScript, reply, request.leaseId);
  switch (fields[0]) {
    case 'granted':
      return grantOf(fields, request.ttlMs);
    case 'no':
      return refusal(fields);
    case 'tick':
      return tickRefusal(fields);
    case 'spent':
    case 'cancelled':
      return { kind: fields[0] };
    case 'out-of-range':
      return { kind: 'out-of-range', fencingToken: numberAt(fields, 2) };
    case 'foreign':
      throw foreign(fields, args, request.resource);
    default:
      throw new MalformedReply(acquireScript, fields);
  }
}

function refusal(fields: Fields): AcquireReply {
  const reason = fields[2];
  if (reason !== 'held' && reason !== 'turn' && reason !== 'quarantine')
    throw new MalformedReply(acquireScript, fields);
  const remainingMs = numberAt(fields, 3) / 1000;
  const position = numberAt(fields, 4);
  const fencingToken = numberAt(fields, 5);
  const job = fields[6] ?? '-';
  // The owner's line is the rest, spaces included.
  const owner = fields.slice(7).join(' ');
  const holder = fencingToken === 0 ? null : { owner, fencingToken, job: job === '-' ? null : decodeName(job) };
  if (position < 0) return { kind: 'busy', reason, holder, remainingMs };
  return { kind: 'queued', reason, holder, remainingMs, position };
}

function tickRefusal(fields: Fields): AcquireReply {
  const reason = fields[2];
  if (reason !== 'already-ran' && reason !== 'superseded' && reason !== 'too-late' && reason !== 'clock-ahead') {
    throw new MalformedReply(acquireScript, fields);
  }
  return { kind: 'tick', reason, aheadMs: numberAt(fields, 3) / 1000, remainingMs: numberAt(fields, 4) / 1000 };
}
