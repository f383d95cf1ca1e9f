/**
 * What the fence's scripts share. The fence of a resource is one hash: `token` and `lease_id`, which is empty after a
 * seal, and for each fence object that has written by this grant a field `w:<its id>`, see `NUMBERED`. It never has a
 * TTL: a fence that is forgotten admits everybody.
 *
 * The decision comes first; `highest` and `admitted` are what was stored. Replies are lists of strings, the kind first:
 * stale <highest token> <its leaseId, empty if sealed> · range (more than 24 h ahead of TIME) · foreign <type>
 */
function storedWith(more: string): string {
  return `
local stored = redis.pcall('HMGET', KEYS[1], 'token', 'lease_id'${more})
if stored.err and string.sub(stored.err, 1, 9) ~= 'WRONGTYPE' then return stored end
local highest, admitted = tonumber(stored[1] or ''), stored[2] or ''
if not highest then
  local kind = redis.call('TYPE', KEYS[1]).ok
  if kind ~= 'none' then return { 'foreign', kind } end
end
`;
}

export const STORED: string = storedWith('');

export const RANGE: string = `
local token = tonumber(ARGV[1])
if highest ~= token then
  local time = redis.call('TIME')
  if token > time[1] * 1000000 + time[2] + 86400000000 then return { 'range' } end
end
`;

const CHECK = `${RANGE}
if highest and (highest > token or highest == token and admitted ~= ARGV[2]) then
  return { 'stale', stored[1], admitted }
end
`;

/** The token in ARGV[1], the leaseId in ARGV[2]. What was known of the writes of an earlier grant goes with it. */
export const ADMIT: string = `${STORED}${CHECK}
if highest ~= token then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'lease_id', ARGV[2])
end
`;

/**
 * Admits a write that has a number, so that it is carried out once although a client may send it again, and so that its
 * outcome can be found out when its answer was lost. Nothing is stored before `note(mark)` is called.
 *
 * ARGV  1 token · 2 leaseId · 3 id of the fence object · 4 number of the write, growing · 5 the lowest number of this
 *       fence object that still waits for its answer
 *
 * The field is `<lowest>|<number><mark>;<number><mark>;…`: the writes that were carried out (no mark), that failed (`f`
 * and the index of the command) or that must never be (`v`), as they came. What is below the lowest has had its answer,
 * and is left out when all before it is: each is looked at once.
 *
 * Further replies: again <mark> · over (its answer was given long ago, or given up)
 */
export const NUMBERED: string = `${storedWith(", 'w:' .. ARGV[3]")}${CHECK}
local lowest, writes = '0', ''
if highest == token and stored[3] then lowest, writes = string.match(stored[3], '^(%d+)|(.*)$') end
if tonumber(ARGV[4]) < tonumber(lowest) then return { 'over' } end
if string.find(';' .. writes, ';' .. ARGV[4], 1, true) then
  local known = string.match(';' .. writes, ';' .. ARGV[4] .. '(%a?%d*);')
  if known then return { 'again', known } end
end
if tonumber(ARGV[5]) > tonumber(lowest) then
  lowest = ARGV[5]
  local at, _, stop, number = 1, string.find(writes, '^(%d+)%a?%d*;')
  while number and tonumber(number) < tonumber(lowest) do
    at = stop + 1
    _, stop, number = string.find(writes, '^(%d+)%a?%d*;', at)
  end
  writes = string.sub(writes, at)
end
local note = function(mark)
  local field, value = 'w:' .. ARGV[3], lowest .. '|' .. writes .. ARGV[4] .. mark .. ';'
  if highest == token then return redis.call('HSET', KEYS[1], field, value) end
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'lease_id', ARGV[2], field, value)
end
`;
