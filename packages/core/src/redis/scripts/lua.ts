import { IS_OF_OWNER, TERM } from './term.ts';

/**
 * Pieces of Lua that several scripts are made of. A script is their concatenation: Redis knows no modules, and a script
 * must not depend on what another one left behind.
 *
 * Conventions of all scripts:
 * - Times are µs since 1970 by the server's TIME, read once per script; arguments in `…Ms` are milliseconds.
 * - Numbers are written with `f('%.0f', n)`: Lua's own conversion turns 1764400000000000 into 1.7644e+15.
 * - Order: shapes, decision, record, side effects. Side effects run under pcall; how many failed is in the reply.
 * - A reply begins with the leaseId it answers, then the kind, then the number of side effects that failed.
 * - The common path runs straight through, with few commands, and defines no functions: a function costs the server as
 *   much as a field, each time the script runs. What only contention needs is in blocks of its own.
 */

/** Seven days. How long a free resource is remembered, in milliseconds. */
export const RETENTION_MS: string = `'${7 * 24 * 60 * 60 * 1000}'`;

/**
 * Lua that says whether this number, or nil, can be a figure of a record. `tonumber` takes `nan`, `inf` and negative numbers,
 * and a comparison with nan decides nothing: a lease that ends at nan would run for ever, and have run out long ago.
 */
export const isFigure = (number: string): string =>
  `${number} and ${number} >= 0 and ${number} <= ${Number.MAX_SAFE_INTEGER}`;

/** The time in µs as text, given the reply to TIME as `time`. Lua writes a number of that size four times as slowly. */
export const NOW_TEXT = `f('%s%06d', time[1], time[2])`;

/** How many events a resource's log keeps, as Lua that reads the history mode from this argument. */
export const keptEvents = (mode: string): string => `${mode} == 'all' and '64' or '16'`;

/**
 * Reads TIME into `now` and the record KEYS[1] into `owner` (empty if free), `lease_id`, `token`, `cancelled`
 * (tombstones), `turn`. `present` says that the record knows a lease, now or before; then its term is in `state`, `middle`
 * (ttl, extensions, extended), `ttl` (ms) and `expires`. Without a lease these two are 0, and it may still be `stored`, for
 * tombstones or a turn. Answers `foreign` for anything else, and leaves it alone.
 */
export const RECORD: string = `
local f, rec, id = string.format, KEYS[1], ARGV[1]
local r = redis.pcall('HMGET', rec, 'owner', 'lease_id', 'fencing_token', 'term', 'cancelled', 'turn', 'crowd')
if r.err then
  if not string.find(r.err, 'WRONGTYPE', 1, true) then return r end
  return id .. ' foreign 0 1 ' .. redis.call('TYPE', rec).ok
end
local owner, lease_id, token, ttl, expires, present, stored = r[1], r[2], 0, 0, 0, r[3], true
local state, middle
if present then
  token = tonumber(present)
  state, middle, ttl, expires = string.match(r[4] or '', ${TERM})
  ttl, expires = tonumber(ttl), tonumber(expires)
  local is_whole = owner and lease_id and ${IS_OF_OWNER} and
    ${isFigure('token')} and ${isFigure('ttl')} and ${isFigure('expires')}
  if not is_whole then return id .. ' foreign 0 1 hash' end
elseif not (owner == '' and lease_id == '') then
  if redis.call('EXISTS', rec) == 1 then return id .. ' foreign 0 1 hash' end
  owner, lease_id, stored = '', '', false
end
local cancelled, turn = r[5] or '', r[6] or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local effects
`;

/**
 * Whether anything is in KEYS[2] (queue), KEYS[3] (waiters) and KEYS[4] (parked): `others`. If so it checks their shapes, by
 * reading what will be wanted: the first two in the queue, `line`, how each is stored, `words`, and who is `parked`.
 *
 * They are looked at only if the record says that somebody may be there (`crowd`), if there is no record to say so, or if
 * this Lua expression wants it: looking costs the server a seventh of the script. Whoever puts something there writes
 * `crowd` in the same script; whoever finds them empty takes it away.
 */
export const waiting = (wanted = 'false'): string => `
local others = (r[7] or not present or ${wanted}) and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0
if r[7] and not others then
  redis.call('HDEL', rec, 'crowd')
  r[7] = false
end
local line, words, parked
if others then
  line = redis.pcall('ZRANGE', KEYS[2], 0, 1)
  words = redis.pcall('HMGET', KEYS[3], line[1] or '', line[2] or '')
  parked = redis.pcall('HKEYS', KEYS[4])
  for i, got in ipairs({ line, words, parked }) do
    if got.err then
      if not string.find(got.err, 'WRONGTYPE', 1, true) then return got end
      return id .. ' foreign 0 ' .. i + 1 .. ' ' .. redis.call('TYPE', KEYS[i + 1]).ok
    end
  end
end
`;

/** An event of the log; all are Lua expressions that give strings. */
interface Noted {
  readonly event: string;
  readonly owner: string;
  readonly token: string;
  /** µs since 1970. */
  readonly at: string;
  /** How many events are kept: `keptEvents`. */
  readonly keep: string;
  readonly detail?: string;
  /** The lease that the event is about. The record's field `tick` must still, or already, be this lease's. */
  readonly leaseId: string;
  /** How long the log is kept, ms, if the caller says so; else nil. */
  readonly retention?: string;
}

/** Lua that puts an event among the side effects. */
export const note = ({ event, owner, token, at, keep, detail = "''", leaseId, retention }: Noted): string => `
  effects = effects or {}
  local entry = { 'XADD', KEYS[5], 'MAXLEN', '=', ${keep}, '*', 'event', ${event}, 'owner', ${owner},
    'fencing_token', ${token}, 'at_us', ${at}, 'detail', ${detail} }
  local whose, tick_ms, job = string.match(redis.call('HGET', rec, 'tick') or '', '^(%S+) (%S+) (%S+)$')
  if whose == ${leaseId} then
    for _, word in ipairs({ 'job', job, 'tick_at', tick_ms }) do entry[#entry + 1] = word end
  end
  effects[#effects + 1] = entry
  effects[#effects + 1] = { 'PEXPIRE', KEYS[5], ${retention === undefined ? '' : `${retention} or `}${RETENTION_MS} }
`;

/** Carries out the side effects; `failed` counts those that did not work. Nothing may be written after it. */
export const EFFECTS: string = `
local failed = '0'
if effects then
  local count = 0
  for i = 1, #effects do
    local done = redis.pcall(unpack(effects[i]))
    if type(done) == 'table' and done.err then count = count + 1 end
  end
  failed = f('%d', count)
end
`;

/** Answers `lost` unless the leaseId that this expression gives owns the record, held or expired. */
export const ownerOnly = (leaseId: string): string => `
if not present then return id .. ' lost 0 missing' end
if lease_id ~= ${leaseId} then return id .. ' lost 0 superseded' end
if owner == '' then
  local how = redis.call('HGET', rec, 'prev_reason')
  return id .. ' lost 0 ' .. (how == 'force-released' and how or 'released')
end
`;

/**
 * Answers what a leaseId gets that is asked for again, or not any more: it becomes owner once in its life. After `TICK`, so
 * that a grant that is repeated says what it has claimed.
 */
export const FRESH_ONLY: string = `
if cancelled ~= '' then
  for name, till in string.gmatch(cancelled, '(%S+):(%d+)') do
    if name == id and tonumber(till) > now then return id .. ' cancelled 0' end
  end
end
local held = owner ~= '' and expires > now
if lease_id == id then
  if held then
    local claim = tick_at and tick_lease == id and f(' %.0f %.0f', tick_attempt, tick_at) or ''
    return id .. ' granted 0 ' .. r[3] .. ' ' .. f('%.0f', expires - now) .. claim
  end
  return id .. ' spent 0'
end
`;

/** Sets `highest`, above which the next token must be, ARGV[7] being the floor, may be missing; answers if it would be out of range. */
export const IN_RANGE: string = `
local highest = token
if (ARGV[7] or '0') ~= '0' then highest = math.max(token, tonumber(ARGV[7])) end
if highest >= now + 86400000000 then return id .. ' out-of-range 0 ' .. f('%.0f', highest) end
`;

/** A record without an owner is forgotten some day. */
export const RETAIN: string = `redis.call('PEXPIRE', rec, ${RETENTION_MS})`;

/**
 * The queue, for a block of its own.
 *
 * A waiter is stored as `<alive until, µs> <lasts, ms> <channel>`, a parked process by its channel as
 * `<alive until, µs> <lasts, ms>`. A message to a channel is `<kind> <ms> <leaseId, or -> <record key>`: `go` (the turn of
 * this waiter), `look` (this waiter may look again in so many ms), `free` (parked: nobody waits), `revoked` and `wanted`
 * (the owner).
 *
 * `head()` drops up to 100 waiters that are no longer alive and returns the leaseId and channel of the first one, or nil;
 * `leave(…)` takes one out.
 * `open_turn()` gives the free resource to the head for a moment and says so; with nobody waiting it tells one parked
 * process. `keep(…)` writes fields that need no lease.
 */
export const QUEUE: string = `
local function keep(...)
  redis.call('HSET', rec, ...)
  if not stored then
    redis.call('HSET', rec, 'owner', '', 'lease_id', '')
    ${RETAIN}
    stored = true
  end
end
local function tell(channel, kind, ms, whom)
  if channel == '' then return end
  effects = effects or {}
  effects[#effects + 1] = { 'PUBLISH', channel, kind .. ' ' .. f('%.0f', ms) .. ' ' .. whom .. ' ' .. rec }
end
local function alive(key, name, word)
  local until_us, lasts, channel = string.match(word or '', '^(%d+) (%d+) ?(.*)$')
  if not until_us then return false end
  local latest = now + lasts * 1000
  if tonumber(until_us) > latest then
    -- Farther ahead than it can have been set: the clock went back.
    redis.call('HSET', key, name, f('%.0f', latest) .. ' ' .. lasts .. ' ' .. channel)
    return true, channel, now
  end
  return tonumber(until_us) > now, channel, until_us - lasts * 1000
end
local function leave(name)
  redis.call('ZREM', KEYS[2], name)
  redis.call('HDEL', KEYS[3], name)
  line = nil
end
local function head()
  for dropped = 0, 100 do
    if not line then
      line = redis.call('ZRANGE', KEYS[2], 0, 1)
      words = redis.call('HMGET', KEYS[3], line[1] or '', line[2] or '')
    end
    local first = line[1]
    if not first then return nil end
    local live, channel = alive(KEYS[3], first, words[1])
    if live or dropped == 100 then return first, channel or '' end
    leave(first)
  end
end
local function claim_ms() return math.min(math.max(ttl / 10, 50), 500) end
local function open_turn()
  local first, channel = head()
  if first then
    if turn == first then return end
    turn = first
    keep('turn', turn, 'turn_until_us', f('%.0f', now + claim_ms() * 1000))
    tell(channel, 'go', 0, first)
    local second = line[2]
    if second then
      local live, its = alive(KEYS[3], second, words[2])
      if live then tell(its, 'look', claim_ms(), second) end
    end
    return
  end
  if turn ~= '' then
    turn = ''
    redis.call('HDEL', rec, 'turn', 'turn_until_us')
  end
  local told, since
  for _, name in ipairs(parked or {}) do
    local live, _, at = alive(KEYS[4], name, redis.call('HGET', KEYS[4], name))
    if not live then
      redis.call('HDEL', KEYS[4], name)
    elseif not since or at < since then
      told, since = name, at
    end
  end
  if told then
    redis.call('HDEL', KEYS[4], told)
    tell(told, 'free', 0, '-')
  end
end
`;

/**
 * Frees the record, whose owner was `id`, and keeps how that ended; `held` says whether it was still HELD. ARGV[2] is the
 * outcome, ARGV[3] the floor and ARGV[4] the history mode, which may be missing, and so may `retention`: how long what is freed
 * is remembered, but never for less than its tombstones last. The next turn is the caller's to open.
 */
export const endTenure = (retention: string): string => `
local held = expires > now
local ended = held and ${NOW_TEXT} or f('%.0f', expires)
if not held or ARGV[4] == 'all' then
  ${note({
    event: "held and 'released' or 'lost'",
    owner: 'owner',
    token: 'r[3]',
    at: 'ended',
    keep: keptEvents('ARGV[4]'),
    detail: 'ARGV[2]',
    leaseId: 'id',
    retention,
  })}
end
redis.call('HSET', rec, 'owner', '', 'term', 'over ' .. middle .. ' ' .. ended, 'prev_owner', owner,
  'prev_token', r[3], 'prev_end', ended, 'prev_reason', held and 'released' or 'expired')
local kept = ${retention} or ${RETENTION_MS}
if ${retention} and cancelled ~= '' then
  for till in string.gmatch(cancelled, '%S+:(%d+)') do kept = math.max(kept, math.ceil((till - now) / 1000)) end
  kept = f('%.0f', kept)
end
redis.call('PEXPIRE', rec, kept)
if (ARGV[3] or '0') ~= '0' then
  local floor = tonumber(ARGV[3])
  -- One out of range would shut out every later owner: it is left to the next acquire, which says so.
  if floor > token and floor < now + 86400000000 then redis.call('HSET', rec, 'fencing_token', ARGV[3]) end
end
`;

/**
 * Reads the tick KEYS[6], if the call has one, into `tick_at` (ms, or nil), `tick_status`, `tick_lease`, `tick_attempt`
 * and `tick_kept` (its retention, or false). Its `prev_…` fields are what stood there before the claim.
 */
export const TICK: string = `
local tick_at, tick_status, tick_lease, tick_attempt, tick_kept
if KEYS[6] then
  local t = redis.pcall('HMGET', KEYS[6], 'at', 'status', 'lease_id', 'attempt', 'retention_ms')
  if t.err then
    if not string.find(t.err, 'WRONGTYPE', 1, true) then return t end
    return id .. ' foreign 0 6 ' .. redis.call('TYPE', KEYS[6]).ok
  end
  tick_at, tick_status, tick_lease, tick_attempt, tick_kept = tonumber(t[1] or ''), t[2], t[3], tonumber(t[4] or '') or 1, t[5]
  if not (tick_at and tick_status and tick_lease) then
    if redis.call('EXISTS', KEYS[6]) == 1 then return id .. ' foreign 0 6 hash' end
    tick_at = nil
  end
end
`;

/**
 * Writes the outcome ARGV[2] into the tick if `id` still has the claim on it; `not-started` gives back what stood there
 * before. `retention` is an argument that may be missing: how long the tick is remembered from now on.
 */
export const endTick = (retention: string): string => `
if tick_at and tick_lease == id and tick_status == 'claimed' then
  if ARGV[2] ~= 'not-started' then
    redis.call('HSET', KEYS[6], 'status', ARGV[2])
  else
    local p = redis.call('HMGET', KEYS[6], 'prev_at', 'prev_status', 'prev_lease_id', 'prev_token', 'prev_owner',
      'prev_attempt')
    redis.call('DEL', KEYS[6])
    if p[1] then
      redis.call('HSET', KEYS[6], 'at', p[1], 'status', p[2], 'lease_id', p[3], 'fencing_token', p[4], 'owner', p[5],
        'attempt', p[6] or '1')
    end
  end
  if ${retention} and redis.call('PEXPIRE', KEYS[6], ${retention}) == 1 then
    redis.call('HSET', KEYS[6], 'retention_ms', ${retention})
  end
end
`;
