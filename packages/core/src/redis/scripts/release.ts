import type { ReleaseReply, ReleaseRequest } from '../../store/store.ts';
import { callOnResource } from '../keys.ts';
import { MalformedReply, script, type Script, type ScriptArgs } from '../script.ts';
import { EFFECTS, endTenure, endTick, ownerOnly, QUEUE, RECORD, TICK, waiting } from './lua.ts';
import { fieldsOf, foreign, isLossReason } from './reply.ts';

/**
 * KEYS  1 record · 2 queue · 3 waiters · 4 parked · 5 log · 6 tick (only with a job)
 * ARGV  1 leaseId · 2 outcome: done, failed, aborted, not-started · 3 floor, a token · 4 history: exceptions, all
 *       5 retention, ms, may be missing; 3 and 4 are missing with it where they are 0 and exceptions
 * Reply <leaseId> released <failed> · <leaseId> lost <failed> <reason> · <leaseId> foreign <failed> <index> <type>
 */
const lua = `#!lua flags=allow-oom${RECORD}${waiting()}${TICK}${endTick('ARGV[5]')}${ownerOnly('id')}${endTenure('ARGV[5]')}
if others or turn ~= '' then
  ${QUEUE}
  open_turn()
end
${EFFECTS}
if held then return id .. ' released ' .. failed end
return id .. ' lost ' .. failed .. ' expired'
`;

export const releaseScript: Script = script('release', lua);

export function releaseArgs(record: string, request: ReleaseRequest): ScriptArgs {
  const { leaseId, outcome, floor, job, history, retentionMs } = request;
  const args = callOnResource(releaseScript.sha, record, job);
  args.push(leaseId, outcome);
  if (floor === 0 && history === 'exceptions' && retentionMs === undefined) return args;
  args.push(String(floor), history);
  if (retentionMs !== undefined) args.push(String(retentionMs));
  return args;
}

export function releaseReply(reply: unknown, args: ScriptArgs, request: ReleaseRequest): ReleaseReply {
  const fields = fieldsOf(releaseScript, reply, request.leaseId);
  const reason = fields[2];
  if (fields[0] === 'released') return { kind: 'released' };
  if (fields[0] === 'lost' && isLossReason(reason)) return { kind: 'lost', reason };
  if (fields[0] === 'foreign') throw foreign(fields, args, request.resource);
  throw new MalformedReply(releaseScript, fields);
}
