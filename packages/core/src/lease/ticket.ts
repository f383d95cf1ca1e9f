import { z } from 'zod';
import { ConfigError } from '../errors.ts';

/**
 * A lease on its way to another process: plain JSON, for a queue or an argument. It is no secret and no lease: the first
 * who adopts it within the ttl gets a lease of its own, everyone after that `LEASE_LOST superseded`.
 */
export interface Ticket {
  readonly v: 1;
  readonly namespace: string;
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
  /** The job whose tick goes with it. */
  readonly job?: string | undefined;
  /** How long what the adopter releases is remembered, milliseconds. */
  readonly retentionMs?: number | undefined;
  /** A packet of this leaseId may still be under way: the adopter leaves a tombstone for it. */
  readonly dirty?: boolean | undefined;
}

const schema = z.strictObject({
  v: z.literal(1),
  namespace: z.string(),
  resource: z.string(),
  leaseId: z.string().min(1),
  fencingToken: z.number().int().positive(),
  ttlMs: z.number().int().positive(),
  job: z.string().optional(),
  retentionMs: z.number().int().positive().optional(),
  dirty: z.boolean().optional(),
});

/** Throws `ConfigError` for what is not a ticket of this namespace. */
export function parseTicket(ticket: unknown, namespace: string): Ticket {
  const result = schema.safeParse(ticket);
  if (!result.success) {
    throw new ConfigError('ticket', 'is not what handOver() returned; pass it on as JSON, unchanged');
  }
  if (result.data.namespace !== namespace) {
    throw new ConfigError('ticket', `is of namespace '${result.data.namespace}', this manager's is '${namespace}'`);
  }
  return result.data;
}
