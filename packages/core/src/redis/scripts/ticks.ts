import type { TickRecord } from '../../store/store.ts';
import { tickKey } from '../keys.ts';
import { keyOf, MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { foreignKey } from './reply.ts';

/**
 * KEYS  1 tick
 * ARGV  none
 * Reply a list: ticks, then at, status, token, owner and attempt of the last tick and the same of the one before it, if
 *       there is one · foreign <type>
 */
const lua = `#!lua flags=no-writes
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return { 'ticks' } end
if kind ~= 'hash' then return { 'foreign', kind } end
local t = redis.call('HMGET', KEYS[1], 'at', 'status', 'fencing_token', 'owner', 'attempt', 'prev_at', 'prev_status',
  'prev_token', 'prev_owner', 'prev_attempt')
if not (t[1] and t[2]) then return { 'foreign', kind } end
local reply = { 'ticks' }
for i = 1, t[6] and 10 or 5 do reply[1 + i] = t[i] or '' end
return reply
`;

export const ticksScript: Script = script('ticks', lua);

/** Values of one tick. */
const WIDTH = 5;

export function ticksArgs(record: string, job: string): ScriptArgs {
  return [ticksScript.sha, '1', tickKey(record, job)];
}

export function ticksReply(reply: unknown, args: ScriptArgs, resource: string): readonly TickRecord[] {
  if (!Array.isArray(reply)) throw new MalformedReply(ticksScript, reply);
  const [kind, ...values] = reply as string[];
  if (kind === 'foreign') throw foreignKey(resource, keyOf(args, 1), values[0] ?? '');
  if (kind !== 'ticks' || values.length % WIDTH !== 0) throw new MalformedReply(ticksScript, reply);
  const ticks: TickRecord[] = [];
  for (let from = 0; from < values.length; from += WIDTH) {
    const [at, status, token, owner = '', attempt = ''] = values.slice(from, from + WIDTH);
    if (status !== 'claimed' && status !== 'done' && status !== 'failed' && status !== 'aborted') {
      throw new MalformedReply(ticksScript, reply);
    }
    ticks.push({
      at: Number(at),
      attempt: attempt === '' ? 1 : Number(attempt),
      status,
      fencingToken: Number(token),
      owner,
    });
  }
  return ticks;
}
