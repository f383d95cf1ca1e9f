import type { LeaseInfo } from '../lease/info.ts';
import { logKey } from '../redis/keys.ts';
import type { OwnerFinding } from './probe.ts';
import { quote } from './probes/by-hand.ts';

/** A command with which a person checks the same, and what to look for in it. */
export interface ByHand {
  readonly command: string;
  readonly lookFor: string;
}

/**
 * For people who have redis-cli alone: what is at the key now, by the clock of that instant. Values are told as JSON, so that
 * none can look like another line.
 *
 * KEYS  1 record · 2 log
 */
const LOOK = [
  'local t = redis.call("TIME")',
  'local now = t[1] .. string.format("%06d", t[2])',
  'local kind = redis.call("TYPE", KEYS[1]).ok',
  'local r = { "now_us " .. now, "type " .. kind, "pttl_ms " .. redis.call("PTTL", KEYS[1]) }',
  'local names = { "owner", "lease_id", "fencing_token", "term", "acquired_us", "prev_owner", "prev_token", "prev_end", "prev_reason", "owner_json" }',
  'if kind == "hash" then local v = redis.call("HMGET", KEYS[1], unpack(names))',
  'local state, ttl, count, extended, till = string.match(v[4] or "", "^(%l+) (%d+) (%d+) (%d+) (%d+)$")',
  'if state then r[#r + 1] = string.format("left_ms %.0f", (till - now) / 1000)',
  'for name, value in pairs({ state = state, ttl_ms = ttl, extensions = count, extended_us = extended, until_us = till }) do r[#r + 1] = name .. " " .. value end end',
  'for i, name in ipairs(names) do if v[i] then r[#r + 1] = name .. " " .. cjson.encode(v[i]) end end end',
  'if redis.call("TYPE", KEYS[2]).ok == "stream" then for i, e in ipairs(redis.call("XREVRANGE", KEYS[2], "+", "-", "COUNT", 10)) do r[#r + 1] = "event " .. cjson.encode(e[2]) end end',
  'return r',
].join(' ');

/** Reads only. `$REDIS_URL` stands for the address, so that no password is in it. */
export function byHandOf(key: string, info: LeaseInfo | null, owner: OwnerFinding): readonly ByHand[] {
  const redis = (rest: string): string => `redis-cli -u "$REDIS_URL" ${rest}`;
  const instance = instanceOf(info);
  const store: ByHand[] =
    key === ''
      ? []
      : [
          {
            command: redis(`EVAL_RO ${quote(LOOK)} 2 ${quote(key)} ${quote(logKey(key))}`),
            lookFor: 'all of it in one step: left_ms, owner, lease_id, extended_us, and the last 10 events',
          },
          {
            command: redis(`HMGET ${quote(key)} owner fencing_token lease_id term`),
            lookFor:
              'an empty owner is free; the term: state, ttl in ms, extensions, when it was extended and until when, in µs by the clock of the next line',
          },
          { command: redis('TIME'), lookFor: 'seconds, then µs' },
          {
            command: redis(`PTTL ${quote(key)}`),
            lookFor: 'how long the record is remembered, not the lease; -1 while somebody owns it',
          },
          { command: redis('ROLE'), lookFor: 'master' },
          { command: redis('INFO replication'), lookFor: 'role, connected_slaves, lag' },
          {
            command: redis(`CLIENT LIST${instance === '' ? '' : ` | grep -F ${quote(`leasehold:${instance}`)}`}`),
            lookFor: "the owner's connections: age and idle",
          },
        ];
  const process = owner.byHand.map((command) => ({ command, lookFor: 'on the host of the owner' }));
  return [...store, ...process, { command: 'chronyc tracking', lookFor: 'System time, Last offset; on both hosts' }];
}

/** As we write it. Anything else in a record is not for a shell. */
function instanceOf(info: LeaseInfo | null): string {
  const instance: unknown = info?.identity?.instance;
  return typeof instance === 'string' && /^[\w-]{1,64}$/.test(instance) ? instance : '';
}
