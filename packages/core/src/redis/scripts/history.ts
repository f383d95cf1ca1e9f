import type { HistoryEvent } from '../../store/store.ts';
import { logKey } from '../keys.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { foreignKey } from './reply.ts';

/**
 * KEYS  1 log
 * ARGV  1 how many events at most
 * Reply a list: events, then for each of them, the newest first, the list of its field names and values · foreign <type>
 */
const lua = `#!lua flags=no-writes
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'stream' then return { 'foreign', kind } end
local reply = { 'events' }
for i, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])) do reply[1 + i] = entry[2] end
return reply
`;

export const historyScript: Script = script('history', lua);

/** No log is longer. */
const MOST = 64;

export function historyArgs(record: string, limit: number): ScriptArgs {
  return [historyScript.sha, '1', logKey(record), String(Math.min(Math.ceil(limit), MOST))];
}

const EVENTS: ReadonlySet<string> = new Set<HistoryEvent['event']>([
  'expired',
  'lost',
  'revoked',
  'adopted',
  'refused',
  'forced',
  'sealed',
  'acquired',
  'released',
]);

function isEvent(name: string | undefined): name is HistoryEvent['event'] {
  return name !== undefined && EVENTS.has(name);
}

export function historyReply(reply: unknown, args: ScriptArgs, resource: string): readonly HistoryEvent[] {
  if (!Array.isArray(reply)) throw new MalformedReply(historyScript, reply);
  const [kind, ...entries] = reply as [string, ...unknown[]];
  if (kind === 'foreign') throw foreignKey(resource, keyOf(args, 1), String(entries[0]));
  if (kind !== 'events') throw new MalformedReply(historyScript, reply);
  // Entries that are not ours are no reason to hide those that are.
  return entries.map((entry) => eventOf(entry)).filter((event) => event !== undefined);
}

function eventOf(entry: unknown): HistoryEvent | undefined {
  if (!Array.isArray(entry)) return undefined;
  const fields = new Map<string, string>();
  for (let at = 0; at + 1 < entry.length; at += 2) fields.set(String(entry[at]), String(entry[at + 1]));
  const event = fields.get('event');
  const [atUs, fencingToken] = [Number(fields.get('at_us')), Number(fields.get('fencing_token'))];
  if (!isEvent(event) || !Number.isSafeInteger(atUs) || !Number.isSafeInteger(fencingToken)) return undefined;
  const tickAt = fields.get('tick_at');
  return {
    atUs,
    event,
    owner: fields.get('owner') ?? '',
    fencingToken,
    detail: fields.get('detail') ?? '',
    job: fields.get('job') ?? null,
    tickAt: tickAt === undefined ? null : Number(tickAt),
  };
}
