import type { LeaseRecord } from '../../store/store.ts';
import { figureOf } from '../figure.ts';
import { queueKey, waitersKey } from '../keys.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { foreignKey } from './reply.ts';
import { termOf } from './term.ts';

const FIELDS = [
  'owner',
  'owner_json',
  'lease_id',
  'fencing_token',
  'term',
  'acquired_us',
  'prev_owner',
  'prev_token',
  'prev_end',
  'prev_reason',
] as const;

/**
 * KEYS  1 record · 2 queue · 3 waiters
 * ARGV  none
 * Reply a list: kind, TIME in µs, waiters alive, then the fields of the record as stored, each a string, missing ones
 *       empty. Kinds: record · none (no lease is known; nothing follows) · foreign (then the index of the key and its type)
 */
const lua = `#!lua flags=no-writes
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local expected = { 'hash', 'zset', 'hash' }
for i = 1, 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= expected[i] then return { 'foreign', tostring(i), kind } end
end
local r = redis.call('HMGET', KEYS[1], '${FIELDS.join("', '")}')
if not r[4] then
  if r[1] == '' and r[3] == '' or redis.call('EXISTS', KEYS[1]) == 0 then return { 'none' } end
  return { 'foreign', '1', 'hash' }
end
if not (r[1] and r[3] and r[5]) then return { 'foreign', '1', 'hash' } end
local waiting = 0
for _, entry in ipairs(redis.call('HVALS', KEYS[3])) do
  local until_us = tonumber(string.match(entry, '^%d+') or '0')
  if until_us > now then waiting = waiting + 1 end
end
local reply = { 'record', string.format('%.0f', now), tostring(waiting) }
for i = 1, #r do reply[3 + i] = r[i] or '' end
return reply
`;

export const readScript: Script = script('read', lua);

export function readArgs(record: string): ScriptArgs {
  return [readScript.sha, '3', record, queueKey(record), waitersKey(record)];
}

export function readReply(reply: unknown, args: ScriptArgs, resource: string): LeaseRecord | null {
  if (!Array.isArray(reply)) throw new MalformedReply(readScript, reply);
  const [kind, now, waiting, ...values] = reply as string[];
  if (kind === 'none') return null;
  if (kind === 'foreign') {
    throw foreignKey(resource, keyOf(args, Number(now)), waiting ?? '');
  }
  if (kind !== 'record' || values.length !== FIELDS.length) throw new MalformedReply(readScript, reply);
  const field = (name: (typeof FIELDS)[number]): string => values[FIELDS.indexOf(name)] ?? '';
  const owner = field('owner');
  const leaseId = field('lease_id');
  const figure = (name: (typeof FIELDS)[number]): number => {
    const value = figureOf(field(name));
    if (value === undefined || (field(name) === '' && name === 'fencing_token')) {
      throw foreignKey(resource, keyOf(args, 1), 'hash');
    }
    return value;
  };
  const term = termOf(field('term'), owner);
  if (term === undefined) throw foreignKey(resource, keyOf(args, 1), 'hash');
  const nowUs = Number(now);
  const ended = field('prev_reason');
  return {
    state: owner === '' ? 'free' : term.untilUs > nowUs ? 'held' : 'expired',
    owner,
    ownerJson: owner === '' ? '' : field('owner_json'),
    leaseId,
    fencingToken: figure('fencing_token'),
    ttlMs: term.ttlMs,
    acquiredUs: figure('acquired_us'),
    extendedUs: term.extendedUs,
    expiresUs: term.untilUs,
    extensions: term.extensions,
    revoked: term.state === 'revoked',
    previous:
      ended === ''
        ? null
        : {
            owner: field('prev_owner'),
            fencingToken: figure('prev_token'),
            endUs: figure('prev_end'),
            reason: ended,
          },
    waiting: Number(waiting),
    nowUs,
  };
}
