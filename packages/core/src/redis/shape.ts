/** What lies at the key of a record. */

import { known, unknown, type Reading } from '../store/reading.ts';
import type { RecordShape } from '../store/evidence.ts';
import type { Ask } from './ask.ts';
import { figureOf } from './figure.ts';
import { termOf } from './scripts/term.ts';

/** So many characters of a foreign value are shown. */
const PREVIEW = 512;

/** Without the first four it is no record. `owner` and `lease_id` are there, and empty, where only tombstones are kept. */
const FIELDS = ['owner', 'lease_id', 'fencing_token', 'term'] as const;
const MORE_FIGURES = ['acquired_us', 'prev_token', 'prev_end'] as const;

export async function shapeOf(ask: Ask, key: string): Promise<Reading<RecordShape>> {
  const type = await ask('type', key);
  if (!type.known) return type;
  const name = String(type.value);
  if (name === 'none') return known({ kind: 'absent' });
  if (name === 'hash') {
    const fields = await ask('hmget', key, ...FIELDS, ...MORE_FIGURES);
    if (!fields.known) return fields;
    if (!Array.isArray(fields.value)) return unknown('not-known', 'gave no usable answer to hmget');
    if (isRecord(fields.value)) return known({ kind: 'record' });
  }
  const [ttl, preview] = await Promise.all([ask('pttl', key), previewOf(ask, key, name)]);
  if (!ttl.known) return ttl;
  const ttlMs = Number(ttl.value);
  // It ran out between the questions.
  if (ttlMs === -2) return known({ kind: 'absent' });
  return known({ kind: 'foreign', type: name, preview, ttlMs: ttlMs >= 0 ? ttlMs : null });
}

function isRecord([owner, leaseId, token, term, ...more]: readonly unknown[]): boolean {
  if (token === null || token === undefined) return owner === '' && leaseId === '';
  const isFigure = (text: unknown): boolean => typeof text === 'string' && figureOf(text) !== undefined;
  if (!isFigure(token) || token === '' || typeof owner !== 'string' || typeof leaseId !== 'string') return false;
  if (!more.every((text) => text === null || isFigure(text))) return false;
  return typeof term === 'string' && termOf(term, owner) !== undefined;
}

/** The beginning of a value by the type that the server names; empty for others, and where it may not be read. */
async function previewOf(ask: Ask, key: string, type: string): Promise<string> {
  const [command, ...args] = commandFor(key, type);
  if (command === undefined) return '';
  const reply = await ask(command, ...args);
  if (!reply.known) return '';
  const value = command.endsWith('scan') && Array.isArray(reply.value) ? (reply.value[1] as unknown) : reply.value;
  // A character of two units is not cut in half.
  return escaped(textOf(value, type))
    .slice(0, PREVIEW)
    .replace(/[\uD800-\uDBFF]$/, '');
}

function commandFor(key: string, type: string): readonly string[] {
  switch (type) {
    case 'string':
      return ['getrange', key, '0', String(PREVIEW - 1)];
    case 'hash':
      return ['hscan', key, '0', 'COUNT', '8'];
    case 'set':
      return ['sscan', key, '0', 'COUNT', '8'];
    case 'list':
      return ['lrange', key, '0', '7'];
    case 'zset':
      return ['zrange', key, '0', '7', 'WITHSCORES'];
    case 'stream':
      return ['xrevrange', key, '+', '-', 'COUNT', '1'];
    default:
      return [];
  }
}

/** `field=value field=value`, `member=score`, `member member`. */
function textOf(value: unknown, type: string): string {
  if (!Array.isArray(value)) return String(value);
  const flat = (value as readonly unknown[]).flat(Infinity).map(String);
  if (type !== 'hash' && type !== 'zset') return flat.join(' ');
  const pairs = flat.flatMap((name, at) => (at % 2 === 0 ? [`${name}=${flat[at + 1] ?? ''}`] : []));
  return pairs.join(' ');
}

/** On one line of a terminal, and without a way to tell it anything. */
function escaped(text: string): string {
  return text.replace(/[\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}\uFFFD]/gu, (char) =>
    char === '\\' ? '\\\\' : char === '\uFFFD' ? '?' : `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}
