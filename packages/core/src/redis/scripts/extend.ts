import type { ExtendItem, ExtendVerdict, StoreCall } from '../../store/store.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { isFigure, NOW_TEXT } from './lua.ts';
import { isLossReason } from './reply.ts';
import { IS_OF_OWNER, TERM } from './term.ts';

/**
 * KEYS  1… the records
 * ARGV  1 the call, which the reply is to repeat · 2 ttl, ms · 3 the leaseIds, all of one length and nothing between
 *       them, or empty
 *       then pairs: t and a ttl, ms, o and the JSON of an owner that is to be written, or i and a leaseId that is not in 3
 *       · the indices of its records, separated by commas
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
local latest = now + usual * 1000
local times = f(' %s %.0f', at, latest)

-- What a term is to be, if it is the usual: held, of the usual ttl, not run out, nor farther ahead than it can have been set.
-- In a batch most differ in their times alone, so it is remembered by what is before them, if both have their sixteen digits.
local heads = {}
local function next_of(term)
  local expires = match(term, '^ %d+ (%d+)$', -34)
  if not expires or #expires ~= 16 then return false end
  expires = tonumber(expires)
  if expires <= now or expires > latest then return false end
  local head = sub(term, 1, -35)
  local next = heads[head]
  if next == nil then
    local ttl, count = match(head, '^held (%d+) (%d+)$')
    count = tonumber(count)
    next = ttl == usual and ${isFigure('count')} and f('held %s %.0f', ttl, count + 1) .. times
    heads[head] = next or false
  end
  return next
end

-- Everything else.
local function judge(rec, id, ttl_ms, json)
  local r = pcall('HMGET', rec, 'owner', 'lease_id', 'fencing_token', 'term', 'prev_reason')
  if r.err then return string.find(r.err, 'WRONGTYPE', 1, true) and 'foreign' or 'unknown' end
  local owner, lease_id, token, term = r[1], r[2], r[3], r[4]
  if not token and (owner == '' and lease_id == '' or call('EXISTS', rec) == 0) then return 'lost missing' end
  local state, middle, ttl, expires = match(term or '', ${TERM})
  ttl, expires = tonumber(ttl), tonumber(expires)
  local count = tonumber(match(middle or '', ' (%d+) '))
  local is_whole = owner and lease_id and token and ${IS_OF_OWNER} and
    ${isFigure('ttl')} and ${isFigure('count')} and ${isFigure('expires')}
  if not is_whole then return 'foreign' end
  if lease_id ~= id then return 'lost superseded' end
  if owner == '' then return 'lost ' .. (r[5] == 'force-released' and r[5] or 'released') end
  if expires > now + ttl * 1000 then
    -- Farther ahead than it can have been set: the clock went back.
    expires = now + ttl * 1000
    call('HSET', rec, 'term', state .. ' ' .. middle .. ' ' .. f('%.0f', expires))
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

-- What not all have in common, by record: t, o and i.
local own = {}
for i = 4, #ARGV, 2 do
  local kind, what = sub(ARGV[i], 1, 1), sub(ARGV[i], 2)
  for which in string.gmatch(ARGV[i + 1], '%d+') do
    which = tonumber(which)
    own[which] = own[which] or {}
    own[which][kind] = what
  end
end
local keys, ids, lines = KEYS, ARGV[3], {}
local width, last = #ids / #keys, 0
local term, next
for i = 1, #keys do
  local rec, its = keys[i], own[i]
  local first = last + 1
  last = last + width
  local id = its and its.i or sub(ids, first, last)
  local r = pcall('HMGET', rec, 'lease_id', 'term')
  -- Those that were extended together have the same term, and come together again.
  if r[2] ~= term then
    term = r[2]
    next = term and next_of(term)
  end
  -- 0: no new field, and no error.
  if r[1] == id and next and not (its and its.t) and pcall('HSET', rec, 'term', next) == 0 then
    if its and its.o then pcall('HSET', rec, 'owner_json', its.o) end
  else
    local other = judge(rec, id, its and its.t or usual, its and its.o)
    if other then lines[#lines + 1] = '\\n' .. i .. ' ' .. other end
  end
end
return ARGV[1] .. ' ' .. at .. ' ' .. #keys - #lines .. table.concat(lines)
`;

export const extendScript: Script = script('extend', lua);

/** `records[i]` is the record key of `items[i]`. */
export function extendArgs(records: readonly string[], items: readonly ExtendItem[]): ScriptArgs {
  const usual = items[0]?.ttlMs;
  const args = [extendScript.sha, String(records.length), ...records, callName(items), String(usual)];
  // Most have the ttl of the first, and are of one owner, whose JSON goes once.
  let others: Map<string, number[]> | undefined;
  // An argument costs both sides more than what is in it.
  const ids = items.map(({ leaseId }) => leaseId).join('');
  const width = ids.length / items.length;
  const areEven = Buffer.byteLength(ids) === ids.length && items.every(({ leaseId }) => leaseId.length === width);
  args.push(areEven ? ids : '');
  let place = 0;
  for (const { leaseId, ttlMs, ownerJson } of items) {
    place++;
    if (!areEven) put((others ??= new Map()), `i${leaseId}`, place);
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

type Extended = Extract<ExtendVerdict, { verdict: 'extended' }>;

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
  let whole: Extended = { verdict: 'extended', remainingMs: 0 };
  const verdicts = items.map(({ ttlMs }): ExtendVerdict => {
    if (ttlMs !== whole.remainingMs) whole = { verdict: 'extended', remainingMs: ttlMs };
    return whole;
  });
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
