/**
 * Pieces of Lua that several scripts begin with. A script is their concatenation: Redis knows no modules, and a script
 * must not depend on what another one left behind.
 *
 * Conventions of all scripts:
 * - Times are µs since 1970 by the server's TIME, read once per script; arguments in `…Ms` are milliseconds.
 * - Numbers are written with `f`: Lua's own conversion turns 1764400000000000 into 1.7644e+15.
 * - Order: shapes, decision, record, side effects. Side effects run under pcall; how many failed is in the reply.
 * - A reply begins with the leaseId it answers, then the kind, then the number of side effects that failed.
 * - Nothing is left in globals (the server refuses that), and tables are read by position only.
 */

/** Seven days. How long a free resource is remembered, in milliseconds. */
const RETENTION_MS = 7 * 24 * 60 * 60 * 1000;

/** How many events a resource's log keeps. */
const LOG_LENGTH = 16;

/** Reads TIME into `now` (µs). */
export const CLOCK = `
local function f(n) return string.format('%.0f', n) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
`;

/**
 * Reads the record KEYS[1]: `owner` (empty if free), `lease_id`, `token`, `ttl` (ms), `expires` (µs), `revoked`,
 * `cancelled` (tombstones), `turn`, `turn_until` (µs). `present` says that the record knows a lease; without one
 * it may still be `stored`, for tombstones or a turn. Answers `foreign` for anything else, and leaves it alone.
 */
export const RECORD = `
local rec, id = KEYS[1], ARGV[1]
local r = redis.pcall('HMGET', rec, 'owner', 'lease_id', 'fencing_token', 'ttl_ms', 'expires_us', 'revoked',
  'cancelled', 'turn', 'turn_until_us')
if r.err then
  if not string.find(r.err, 'WRONGTYPE', 1, true) then return r end
  return id .. ' foreign 0 1 ' .. redis.call('TYPE', rec).ok
end
local present, stored = r[3] ~= false, true
local owner, lease_id, token, ttl, expires = r[1], r[2], tonumber(r[3] or '0'), tonumber(r[4] or '0'), tonumber(r[5] or '0')
local revoked, cancelled, turn, turn_until = r[6] or '', r[7] or '', r[8] or '', tonumber(r[9] or '0')
if present then
  if not (owner and lease_id and token and ttl and expires and turn_until) then return id .. ' foreign 0 1 hash' end
elseif not (owner == '' and lease_id == '') then
  if redis.call('EXISTS', rec) == 1 then return id .. ' foreign 0 1 hash' end
  stored, owner, lease_id = false, '', ''
end
`;

/** Checks the shapes of the waiting keys KEYS[2] (queue), KEYS[3] (waiters), KEYS[4] (parked); sets `others` if there are any. */
export const WAITING = `
local others = redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0
if others then
  local expected = { false, 'zset', 'hash', 'hash' }
  for i = 2, 4 do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= 'none' and kind ~= expected[i] then return id .. ' foreign 0 ' .. i .. ' ' .. kind end
  end
end
`;

/**
 * Side effects, collected while deciding and carried out last: `tell(channel, kind, ms)`, `note(event, …)`, `failed()`.
 * A message is `<kind> <ms> <record key>`: `go 0 …` (your turn), `look <ms> …` (look again in so many ms),
 * `free 0 …` (parked: nobody waits).
 */
export const EFFECTS = `
local effects
local function tell(channel, kind, ms)
  if channel == '' then return end
  effects = effects or {}
  effects[#effects + 1] = { 'PUBLISH', channel, kind .. ' ' .. f(ms) .. ' ' .. rec }
end
local function note(event, who, number, at)
  effects = effects or {}
  effects[#effects + 1] = { 'XADD', KEYS[5], 'MAXLEN', '=', '${LOG_LENGTH}', '*', 'event', event, 'owner', who,
    'fencing_token', f(number), 'at_us', f(at) }
  effects[#effects + 1] = { 'PEXPIRE', KEYS[5], '${RETENTION_MS}' }
end
local function failed()
  local count = 0
  for i = 1, effects and #effects or 0 do
    local done = redis.pcall(unpack(effects[i]))
    if type(done) == 'table' and done.err then count = count + 1 end
  end
  return count
end
`;

/** `retain()`: a record without an owner is forgotten some day. `keep(…)` writes fields that need no lease. */
export const KEEP = `
local function retain() redis.call('PEXPIRE', rec, '${RETENTION_MS}') end
local function keep(...)
  redis.call('HSET', rec, ...)
  if not stored then
    redis.call('HSET', rec, 'owner', '', 'lease_id', '')
    retain()
    stored = true
  end
end
`;

/**
 * The queue. `head()` drops up to 100 waiters that are no longer alive and returns the leaseId and channel of the first
 * one, or nil. `open_turn()` gives a free resource to the head for a moment and says so; with nobody waiting it tells
 * one parked process. A waiter is stored as `<alive until, µs> <lasts, ms> <channel>`, a parked process by its channel
 * as `<alive until, µs> <lasts, ms>`.
 */
export const QUEUE = `
local function alive(key, name)
  local until_us, lasts, channel = string.match(redis.call('HGET', key, name) or '', '^(%d+) (%d+) ?(.*)$')
  if not until_us then return false end
  local latest = now + lasts * 1000
  if tonumber(until_us) > latest then
    redis.call('HSET', key, name, f(latest) .. ' ' .. lasts .. ' ' .. channel)
    return true, channel, latest - lasts * 1000
  end
  return tonumber(until_us) > now, channel, until_us - lasts * 1000
end
local function head()
  for dropped = 0, 100 do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not first then return nil end
    local live, channel = alive(KEYS[3], first)
    if live or dropped == 100 then return first, channel or '' end
    redis.call('ZREM', KEYS[2], first)
    redis.call('HDEL', KEYS[3], first)
  end
end
local function claim_ms() return math.min(math.max(ttl / 10, 50), 500) end
local function open_turn()
  local first, channel = head()
  if first then
    if turn == first then return end
    turn, turn_until = first, now + claim_ms() * 1000
    keep('turn', turn, 'turn_until_us', f(turn_until))
    tell(channel, 'go', 0)
    local second = redis.call('ZRANGE', KEYS[2], 1, 1)[1]
    if second then
      local live, its = alive(KEYS[3], second)
      if live then tell(its, 'look', claim_ms()) end
    end
    return
  end
  if turn ~= '' then
    turn = ''
    redis.call('HDEL', rec, 'turn', 'turn_until_us')
  end
  local told, since
  for _, name in ipairs(redis.call('HKEYS', KEYS[4])) do
    local live, _, at = alive(KEYS[4], name)
    if not live then
      redis.call('HDEL', KEYS[4], name)
    elseif not since or at < since then
      told, since = name, at
    end
  end
  if told then
    redis.call('HDEL', KEYS[4], told)
    tell(told, 'free', 0)
  end
end
`;

/**
 * `end_tenure(floor)` frees a record whose owner was `id`, keeps how it ended, and opens the next turn. Returns whether
 * it was still HELD.
 */
export const TENURE = `
local function end_tenure(floor)
  local held = expires > now
  local ended = held and now or expires
  redis.call('HSET', rec, 'owner', '', 'expires_us', f(ended), 'prev_owner', owner, 'prev_token', f(token),
    'prev_end', f(ended), 'prev_reason', held and 'released' or 'expired')
  if floor > token and floor < now + 86400000000 then redis.call('HSET', rec, 'fencing_token', f(floor)) end
  if revoked ~= '' then redis.call('HDEL', rec, 'revoked') end
  retain()
  if not held then note('lost', owner, token, ended) end
  if others or turn ~= '' then open_turn() end
  return held
end
`;

/**
 * Reads the tick KEYS[6], if the call has one, into `tick_at` (ms, or nil), `tick_status`, `tick_lease`. Its `prev_…`
 * fields are what stood there before the claim.
 */
export const TICK = `
local tick_at, tick_status, tick_lease
if KEYS[6] then
  local t = redis.pcall('HMGET', KEYS[6], 'at', 'status', 'lease_id')
  if t.err then
    if not string.find(t.err, 'WRONGTYPE', 1, true) then return t end
    return id .. ' foreign 0 6 ' .. redis.call('TYPE', KEYS[6]).ok
  end
  tick_at, tick_status, tick_lease = tonumber(t[1] or ''), t[2], t[3]
  if not (tick_at and tick_status and tick_lease) then
    if redis.call('EXISTS', KEYS[6]) == 1 then return id .. ' foreign 0 6 hash' end
    tick_at = nil
  end
end
`;

/** Writes `outcome` into the tick if `id` still has the claim on it; `not-started` gives back what stood there before. */
export const END_TICK = `
if tick_at and tick_lease == id and tick_status == 'claimed' then
  if outcome ~= 'not-started' then
    redis.call('HSET', KEYS[6], 'status', outcome)
  else
    local p = redis.call('HMGET', KEYS[6], 'prev_at', 'prev_status', 'prev_lease_id', 'prev_token', 'prev_owner')
    redis.call('DEL', KEYS[6])
    if p[1] and p[1] ~= '' then
      redis.call('HSET', KEYS[6], 'at', p[1], 'status', p[2], 'lease_id', p[3], 'fencing_token', p[4], 'owner', p[5])
    end
  end
end
`;
