import type { StoreMessage } from '../store/store.ts';
import { resourceOf } from './keys.ts';

/** `<kind> <ms> <leaseId, or -> <record key>`, as the scripts publish it. */
const MESSAGE = /^(go|look|free|revoked|wanted) (\d{1,12}) (\S+) (\S+)$/;

/** What a message says, or undefined if it is not one of this prefix. */
export function messageOf(prefix: string, text: string): StoreMessage | undefined {
  const [, kind, ms, leaseId, key] = MESSAGE.exec(text) ?? [];
  const resource = key === undefined ? undefined : resourceOf(prefix, key);
  if (resource === undefined || leaseId === undefined) return undefined;
  if (kind !== 'go' && kind !== 'look' && kind !== 'free' && kind !== 'revoked' && kind !== 'wanted') return undefined;
  return { kind, resource, leaseId: leaseId === '-' ? '' : leaseId, afterMs: Number(ms) };
}
