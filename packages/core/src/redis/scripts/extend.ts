import type { ExtendItem, ExtendVerdict, StoreCall } from '../../store/store.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { isFigure, NOW_TEXT } from './lua.ts';
import { isLossReason } from './reply.ts';
import { TERM } from './term.ts';

/**
 * KEYS  1… the records
 * ARGV  1 the call, which the reply is to repeat · 2 ttl, ms · for the record KEYS[i]: 2+i leaseId
 *       then pairs: t and a ttl, ms, or o and the JSON of an owner that is to be written · the indices of its records,
 *       separated by commas
 * Reply one string: the call, the time in µs and how many were extended for their whole ttl; then a line for each of the
 *       others, in their order:
 *       <index> extended <remaining, µs>, more than the ttl · <index> revoked <remaining, µs> · <index> lost <reason>
 *       <index> foreign · <index> unknown (this one failed in some other way)
 *
 * Each lease is decided alone: one record that is not ours harms none of the others. On a Cluster it is called with one
 * record at a time.
 */
const lua = `#!lua flags=allow-oom
local f, call, pcall = string.format, redis.call, redis.pcall
local match, sub = string.match, string.sub
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at = ${NOW_TEXT}
local usual = ARGV[2]
local till = now + usual * 1000
local times = f(' %s %.0f', at, till)

-- The usual: held, of the usual ttl, and not run out. In a batch few terms are different, and most of those in their times
-- alone; so what each is to be is remembered by its text, and by what is before its times.
local nexts, heads = {}, {}
local function next_of(term)
  local head, expires = sub(term, 1, -35), tonumber(sub(term, -16))
  local next = heads[head]
  if next == nil then
    local ttl, count = match(head, '^held (%d+) (%d+)$')
    count = tonumber(count)
    next = ttl == usual and ${isFigure('count')} and f('held %s %.0f', ttl, count + 1) .. times
    heads[head] = next or false
  end
  if not next or not expires or expires <= now or expires > till then return false end
  nexts[term] = next
  return next
end

-- Everything else.
local function judge(rec, id, ttl_ms, json)
  local r = pcall('HMGET', rec, 'owner', 'lease_id', 'fencing_token', 'term', 'prev_reason')
  if r.err then return string.find(r.err, 'WRONGTYPE', 1, true) and 'foreign' or 'unknown' end
  local owner, lease_id, token, term = r[1], r[2], r[3], r[4]
  if not token and (owner == '' and lease_id == '' or call('EXISTS', rec) == 0) then return 'lost missing' end
  local state, ttl, count, extended, expires = match(term or '', ${TERM})
  ttl, count, expires = tonumber(ttl), tonumber(count), tonumber(expires)
  local is_whole = owner and lease_id and token and
    (owner == '' and state == 'over' or owner ~= '' and (state == 'held' or state == 'revoked')) and
    ${isFigure('ttl')} and ${isFigure('count')} and ${isFigure('expires')}
  if not is_whole then return 'foreign' end
  if lease_id ~= id then return 'lost superseded' end
  if owner == '' then return 'lost ' .. (r[5] == 'force-released' and r[5] or 'released') end
  if expires > now + ttl * 1000 then
    -- Farther ahead than it can have been set: the clock went back.
    expires = now + ttl * 1000
    call('HSET', rec, 'term', f('%s %.0f %.0f %s %.0f', state, ttl, count, extended, expires))
  end
  if expires <= now then return 'lost expired' end
  if state == 'revoked' then return 'revoked ' .. f('%.0f', expires - now) end
  local wanted = now + ttl_ms * 1000
  -- A shorter ttl than the one the expiry came from: neither goes down, it has been promised.
  local is_kept = wanted < expires
  if not is_kept then ttl, expires = ttl_ms, wanted end
  if type(pcall('HSET', rec, 'term', f('held %.0f %.0f %s %.0f', ttl, count + 1, at, expires))) == 'table' then
    return 'unknown'
  end
  if json then pcall('HSET', rec, 'owner_json', json) end
  if is_kept then return 'extended ' .. f('%.0f', expires - now) end
end

local ttls, owners = {}, {}
for i = #KEYS + 3, #ARGV, 2 do
  local of, what = sub(ARGV[i], 1, 1) == 't' and ttls or owners, sub(ARGV[i], 2)
  for which in string.gmatch(ARGV[i + 1], '%d+') do of[tonumber(which)] = what end
end
local extended, lines = 0, {}
for i = 1, #KEYS do
  local rec, id = KEYS[i], ARGV[2 + i]
  local r = pcall('HMGET', rec, 'lease_id', 'term')
  local term = r[1] == id and not ttls[i] and r[2]
  local next, other = term and (nexts[term] or next_of(term)), nil
  if next and type(pcall('HSET', rec, 'term', next)) ~= 'table' then
    if owners[i] then pcall('HSET', rec, 'owner_json', owners[i]) end
  else
    other = judge(rec, id, ttls[i] or usual, owners[i])
  end
  if other then
    lines[#lines + 1] = '\\n' .. i .. ' ' .. other
  else
    extended = extended + 1
  end
end
return ARGV[1] .. ' ' .. at .. ' ' .. extended .. table.concat(lines)
`;

export const extendScript: Script = script('extend', lua);

/** `records[i]` is the record key of `items[i]`. */
export function extendArgs(records: readonly string[], items: readonly ExtendItem[]): ScriptArgs {
  const usual = items[0]?.ttlMs;
  const args = [extendScript.sha, String(records.length), ...records, callName(items), String(usual)];
  // Most have the ttl of the first, and are of one owner, whose JSON goes once.
  let others: Map<string, number[]> | undefined;
  let place = 0;
  for (const { leaseId, ttlMs, ownerJson } of items) {
    place++;
    args.push(leaseId);
    if (ttlMs !== usual) put((others ??= new Map()), `t${ttlMs}`, place);
    if (ownerJson !== undefined) put((others ??= new Map()), `o${ownerJson}`, place);
  }
  if (others !== undefined) for (const [what, places] of others) args.push(what, places.join(','));
  return args;
}

let calls = 0;

/** Of no other call. A reply has no more of the leases that were extended than its name and their number. */
function callName(items: readonly ExtendItem[]): string {
  return `${items[0]?.leaseId}#${++calls}`;
}

function put(others: Map<string, number[]>, what: string, place: number): void {
  const places = others.get(what);
  if (places === undefined) others.set(what, [place]);
  else places.push(place);
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
  const [head = '', ...lines] = reply.split('\n');
  const [call, time, count] = head.split(' ');
  const nowUs = Number(time);
  // After the keys.
  if (call !== args[2 + items.length] || !(nowUs > 0) || Number(count) + lines.length !== items.length) {
    throw new MalformedReply(extendScript, reply);
  }
  told?.(nowUs);
  const verdicts = items.map(({ ttlMs }): ExtendVerdict => ({ verdict: 'extended', remainingMs: ttlMs }));
  let last = 0;
  for (const line of lines) {
    const [place, verdict, what] = line.split(' ');
    const index = Number(place);
    // Each of them once, or one that was not extended would count as extended.
    if (!(index > last && index <= items.length)) throw new MalformedReply(extendScript, reply);
    last = index;
    verdicts[index - 1] = verdictOf(verdict, what, args, index - 1);
  }
  return verdicts;
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
