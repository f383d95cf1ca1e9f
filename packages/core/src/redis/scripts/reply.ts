import { ForeignKeyError, type LossReason } from '../../errors.ts';
import type { AcquireReply } from '../../store/store.ts';
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

/**
 * `granted <failed> <token>` for the whole ttl, or `granted <failed> <token> <remaining, µs>` for one granted before. With a
 * tick `<attempt> <at, ms>` follow, with spare tokens `<how many>`, and `-` is the whole ttl.
 */
export function grantOf(fields: Fields, ttlMs: number): Extract<AcquireReply, { readonly kind: 'granted' }> {
  const again = fields.length > 3 && fields[3] !== '-';
  const remainingMs = again ? numberAt(fields, 3) / 1000 : ttlMs;
  const tick = fields.length > 5 ? { at: numberAt(fields, 5), attempt: numberAt(fields, 4) } : null;
  const granted = { kind: 'granted', fencingToken: numberAt(fields, 2), remainingMs, again, tick } as const;
  return fields.length === 5 ? { ...granted, spareTokens: numberAt(fields, 4) } : granted;
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
  return foreignKey(resource, keyOf(args, numberAt(fields, 2)), fields[3] ?? '');
}

/** `type` as Redis calls it; one that we use ourselves must be of another shape. */
export function foreignKey(resource: string, key: string, type: string): ForeignKeyError {
  return new ForeignKeyError(resource, key, type === 'hash' ? 'holds a hash that is not ours' : `holds a ${type}`);
}
