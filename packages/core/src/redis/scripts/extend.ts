import type { ExtendItem, ExtendVerdict, StoreCall } from '../../store/store.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { isFigure, NOW_TEXT } from './lua.ts';
import { isLossReason } from './reply.ts';

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
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at = ${NOW_TEXT}
-- By their texts: in a batch few numbers are different, and to read or write one is dear.
local figures, nexts, ends, texts = {}, {}, {}, {}
local function figure(text)
  local number = figures[text]
  if number == nil then
    number = tonumber(text)
    number = ${isFigure('number')} and number
    figures[text] = number
  end
  return number
end
local function verdict(rec, id, ttl_ms, json)
  local r = pcall('HMGET', rec, 'owner', 'lease_id', 'ttl_ms', 'expires_us', 'revoked', 'extensions')
  if r.err then return string.find(r.err, 'WRONGTYPE', 1, true) and 'foreign' or 'unknown' end
  local owner, lease_id, ttl_text, count = r[1], r[2], r[3], r[6] or '0'
  local ttl, expires = figure(ttl_text), figure(r[4])
  local is_whole = owner and lease_id and ttl and expires and figure(count)
  if not is_whole or lease_id ~= id or owner == '' then
    local more = call('HMGET', rec, 'fencing_token', 'prev_reason')
    if not more[1] and (owner == '' and lease_id == '' or call('EXISTS', rec) == 0) then return 'lost missing' end
    if not is_whole or not more[1] then return 'foreign' end
    if lease_id ~= id then return 'lost superseded' end
    return 'lost ' .. (more[2] == 'force-released' and more[2] or 'released')
  end
  if expires > now + ttl * 1000 then
    -- Farther ahead than it can have been set: the clock went back.
    expires = now + ttl * 1000
    call('HSET', rec, 'expires_us', f('%.0f', expires))
  end
  if expires <= now then return 'lost expired' end
  if r[5] == id then return 'revoked ' .. f('%.0f', expires - now) end
  local till, next_count = ends[ttl_ms], nexts[count]
  if not till then
    till = now + ttl_ms * 1000
    ends[ttl_ms], texts[ttl_ms] = till, f('%.0f', till)
  end
  if not next_count then
    next_count = f('%.0f', figure(count) + 1)
    nexts[count] = next_count
  end
  local done
  if till < expires then
    -- A shorter ttl than the one the expiry came from: neither goes down, it has been promised.
    done = pcall('HSET', rec, 'extended_us', at, 'extensions', next_count)
  elseif ttl_text == ttl_ms then
    done = pcall('HSET', rec, 'expires_us', texts[ttl_ms], 'extended_us', at, 'extensions', next_count)
  else
    done = pcall('HSET', rec, 'expires_us', texts[ttl_ms], 'extended_us', at, 'extensions', next_count,
      'ttl_ms', ttl_ms)
  end
  if type(done) == 'table' then return 'unknown' end
  if json then pcall('HSET', rec, 'owner_json', json) end
  if till < expires then return 'extended ' .. f('%.0f', expires - now) end
end
local ttls, owners = {}, {}
for i = #KEYS + 3, #ARGV, 2 do
  local of, what = string.sub(ARGV[i], 1, 1) == 't' and ttls or owners, string.sub(ARGV[i], 2)
  for which in string.gmatch(ARGV[i + 1], '%d+') do of[tonumber(which)] = what end
end
local usual, extended, lines = ARGV[2], 0, {}
for i = 1, #KEYS do
  local other = verdict(KEYS[i], ARGV[2 + i], ttls[i] or usual, owners[i])
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
