import { randomFillSync } from 'node:crypto';

const BYTES = 16;
const pool = Buffer.allocUnsafe(256 * BYTES);
let used = pool.length;

/** 128 random bits as 32 hex digits. Drawn from a pool, because a draw of its own costs more than the rest of an acquire. */
export function newLeaseId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  return pool.toString('hex', used, (used += BYTES));
}
