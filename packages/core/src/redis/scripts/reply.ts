import { ForeignKeyError, type LossReason } from '../../errors.ts';
import { keyOf, MalformedReply, type Script, type ScriptArgs } from '../script.ts';

/** The parts of a reply after the leaseId: kind, failed side effects, and what the kind adds. */
export type Fields = readonly string[];

/** Checks that the reply is to this leaseId and takes it apart. */
export function fieldsOf(called: Script, reply: unknown, leaseId: string): Fields {
  if (typeof reply !== 'string' || !reply.startsWith(leaseId) || reply[leaseId.length] !== ' ') {
    throw new MalformedReply(called, reply);
  }
  return reply.slice(leaseId.length + 1).split(' ');
}

/** A part that must be a number. */
export function numberAt(fields: Fields, index: number): number {
  const value = Number(fields[index]);
  if (!Number.isSafeInteger(value) || fields[index] === '') throw new RangeError(`part ${index} is no number`);
  return value;
}

const REASONS: ReadonlySet<string> = new Set<LossReason>([
  'expired',
  'superseded',
  'missing',
  'released',
  'revoked',
  'force-released',
]);

export function isLossReason(text: string | undefined): text is LossReason {
  return text !== undefined && REASONS.has(text);
}

/** `foreign <failed> <index of the key> <type found>` as an error. */
export function foreign(fields: Fields, args: ScriptArgs, resource: string): ForeignKeyError {
  const found = fields[3] === 'hash' ? 'holds a hash that is not ours' : `holds a ${fields[3]}`;
  return new ForeignKeyError(resource, keyOf(args, numberAt(fields, 2)), found);
}
