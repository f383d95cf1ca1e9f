import type { ExtendItem, ExtendVerdict, StoreCall } from '../../store/store.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { isFigure } from './lua.ts';
import { isLossReason } from './reply.ts';

/**
 * KEYS  1… the records
 * ARGV  for the record KEYS[i]: 2i-1 leaseId · 2i ttl, ms
 *       then, for each owner JSON that is to be written: the JSON · the indices of its records, separated by commas
 * Reply one string, the time in µs, then a line for each record in their order:
 *       <leaseId> extended, for the whole ttl · <leaseId> extended <remaining, µs>, more than that · <leaseId> revoked <remaining, µs> · <leaseId> lost <reason>
 *       <leaseId> foreign · <leaseId> unknown (this one failed in some other way)
 *
 * Each lease is decided alone: one record that is not ours harms none of the others. On a Cluster it is called with one
 * record at a time.
 */
const lua = `#!lua flags=allow-oom
local f, call, pcall = string.format, redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at = f('%.0f', now)
-- The ends of leases of this batch, by ttl as given: few are different, and writing a number is dear.
local ends, texts = {}, {}
local owners = {}
for i = 2 * #KEYS + 1, #ARGV, 2 do
  for which in string.gmatch(ARGV[i + 1], '%d+') do owners[tonumber(which)] = ARGV[i] end
end
local function verdict(rec, id, ttl_ms, json)
  local r = pcall('HMGET', rec, 'owner', 'lease_id', 'ttl_ms', 'expires_us', 'revoked', 'extensions', 'fencing_token')
  if r.err then return string.find(r.err, 'WRONGTYPE', 1, true) and ' foreign' or ' unknown' end
  local owner, lease_id, ttl, expires = r[1], r[2], tonumber(r[3] or ''), tonumber(r[4] or '')
  if not r[7] then
    if owner == '' and lease_id == '' or call('EXISTS', rec) == 0 then return ' lost missing' end
    return ' foreign'
  end
  local count = tonumber(r[6] or '0')
  if not (owner and lease_id and ${isFigure('ttl')} and ${isFigure('expires')} and ${isFigure('count')}) then
    return ' foreign'
  end
  if lease_id ~= id then return ' lost superseded' end
  if owner == '' then
    local how = call('HGET', rec, 'prev_reason')
    return ' lost ' .. (how == 'force-released' and how or 'released')
  end
  if expires > now + ttl * 1000 then
    -- Farther ahead than it can have been set: the clock went back.
    expires = now + ttl * 1000
    call('HSET', rec, 'expires_us', f('%.0f', expires))
  end
  if expires <= now then return ' lost expired' end
  if r[5] == id then return ' revoked ' .. f('%.0f', expires - now) end
  local till = ends[ttl_ms]
  if not till then
    till = now + ttl_ms * 1000
    ends[ttl_ms], texts[ttl_ms] = till, f('%.0f', till)
  end
  local done
  if till < expires then
    -- A shorter ttl than the one the expiry came from: neither goes down, it has been promised.
    done = pcall('HSET', rec, 'extended_us', at, 'extensions', count + 1)
  elseif r[3] == ttl_ms then
    done = pcall('HSET', rec, 'expires_us', texts[ttl_ms], 'extended_us', at, 'extensions', count + 1)
  else
    done = pcall('HSET', rec, 'expires_us', texts[ttl_ms], 'extended_us', at, 'extensions', count + 1,
      'ttl_ms', ttl_ms)
  end
  if type(done) == 'table' then return ' unknown' end
  if json then pcall('HSET', rec, 'owner_json', json) end
  if till < expires then return ' extended ' .. f('%.0f', expires - now) end
  return ' extended'
end
local lines = { at }
for i = 1, #KEYS do
  local id = ARGV[2 * i - 1]
  lines[i + 1] = id .. verdict(KEYS[i], id, ARGV[2 * i], owners[i])
end
return table.concat(lines, '\\n')
`;

export const extendScript: Script = script('extend', lua);

/** `records[i]` is the record key of `items[i]`. */
export function extendArgs(records: readonly string[], items: readonly ExtendItem[]): ScriptArgs {
  const args = [extendScript.sha, String(records.length), ...records];
  // Most are of one owner, whose JSON goes once.
  let owners: Map<string, number[]> | undefined;
  let place = 0;
  for (const { leaseId, ttlMs, ownerJson } of items) {
    place++;
    args.push(leaseId, String(ttlMs));
    if (ownerJson === undefined) continue;
    owners ??= new Map();
    const places = owners.get(ownerJson);
    if (places === undefined) owners.set(ownerJson, [place]);
    else places.push(place);
  }
  if (owners !== undefined) for (const [json, places] of owners) args.push(json, places.join(','));
  return args;
}

export interface ExtendQuestion {
  readonly items: readonly ExtendItem[];
  readonly told: StoreCall['told'];
}

export function extendReply(
  reply: unknown,
  args: ScriptArgs,
  { items, told }: ExtendQuestion,
): readonly ExtendVerdict[] {
  if (typeof reply !== 'string') throw new MalformedReply(extendScript, reply);
  const lines = reply.split('\n');
  const nowUs = Number(lines[0]);
  if (lines.length !== items.length + 1 || !(nowUs > 0)) throw new MalformedReply(extendScript, reply);
  told?.(nowUs);
  return items.map((item, index) => {
    const line = lines[index + 1] ?? '';
    if (!line.startsWith(item.leaseId) || line[item.leaseId.length] !== ' ') return { verdict: 'unknown' };
    const [verdict, what] = line.slice(item.leaseId.length + 1).split(' ');
    if (verdict === 'extended' && what === undefined) return { verdict, remainingMs: item.ttlMs };
    return verdictOf(verdict, what, args, index);
  });
}

function verdictOf(
  verdict: string | undefined,
  what: string | undefined,
  args: ScriptArgs,
  index: number,
): ExtendVerdict {
  switch (verdict) {
    case 'extended':
    case 'revoked': {
      const remainingMs = Number(what) / 1000;
      // NaN is not above 0, either.
      return remainingMs > 0 ? { verdict, remainingMs } : { verdict: 'unknown' };
    }
    case 'lost':
      return isLossReason(what) ? { verdict, reason: what } : { verdict: 'unknown' };
    case 'foreign':
      return { verdict, key: keyOf(args, index + 1) };
    default:
      return { verdict: 'unknown' };
  }
}
