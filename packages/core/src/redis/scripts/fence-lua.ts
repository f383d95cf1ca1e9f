/**
 * What the fence's scripts share. The fence of a resource is one hash: `token` and `lease_id`, which is empty after a
 * seal. It never has a TTL: a fence that is forgotten admits everybody.
 *
 * The decision comes first; `highest` and `admitted` are what was stored. Replies are lists of strings, the kind first:
 * stale <highest token> <its leaseId, empty if sealed> · range (more than 24 h ahead of TIME) · foreign <type>
 */
export const STORED: string = `
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then return { 'foreign', kind } end
local stored = redis.call('HMGET', KEYS[1], 'token', 'lease_id')
local highest, admitted = tonumber(stored[1] or ''), stored[2] or ''
if kind == 'hash' and not highest then return { 'foreign', kind } end
`;

export const RANGE: string = `
local token = tonumber(ARGV[1])
local time = redis.call('TIME')
if token > time[1] * 1000000 + time[2] + 86400000000 then return { 'range' } end
`;

/** The token in ARGV[1], the leaseId in ARGV[2]. */
export const ADMIT: string = `${STORED}${RANGE}
if highest and (highest > token or highest == token and admitted ~= ARGV[2]) then
  return { 'stale', stored[1], admitted }
end
if highest ~= token then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'lease_id', ARGV[2])
  redis.call('PERSIST', KEYS[1])
end
`;
