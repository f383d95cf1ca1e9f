import { randomUUID } from 'node:crypto';
import { show } from '../show.ts';

/**
 * What a conditional fence keeps for a resource, as one thing that is replaced as one: who was admitted, and the protected
 * value. Plain data; as JSON if the value is.
 */
export interface ConditionalCell<V> {
  /** The qualified name: a cell that is found in another resource's place is refused. */
  readonly resource: string;
  /** The highest token that was admitted or sealed. */
  readonly fencingToken: number;
  /** Null when sealed by hand. */
  readonly leaseId: string | null;
  /** Of the change that made this cell. Random, so that no two cells are ever equal. */
  readonly writeId: string;
  /** Those of the changes before it, the latest first; at most 16. */
  readonly recent: readonly string[];
  /** Null if nothing was set yet. */
  readonly value: V | null;
}

/** How many changes a cell remembers. */
const RECENT = 16;

/** The cell that follows `base`. */
export function nextCell<V>(
  base: ConditionalCell<V> | null,
  change: Pick<ConditionalCell<V>, 'resource' | 'fencingToken' | 'leaseId' | 'value'>,
): ConditionalCell<V> {
  const { resource, fencingToken, leaseId, value } = change;
  const recent = base === null ? [] : [base.writeId, ...base.recent].slice(0, RECENT);
  return { resource, fencingToken, leaseId, writeId: randomUUID(), recent, value };
}

/** Why `found` is not a cell of `resource`, or null if it is. */
export function cellProblem(found: unknown, resource: string): string | null {
  if (typeof found !== 'object' || found === null) return `holds ${show(found)}, which is no cell of a fence`;
  const cell = found as Partial<Record<keyof ConditionalCell<unknown>, unknown>>;
  const isSound =
    typeof cell.resource === 'string' &&
    Number.isSafeInteger(cell.fencingToken) &&
    (cell.fencingToken as number) >= 1 &&
    (cell.leaseId === null || (typeof cell.leaseId === 'string' && cell.leaseId !== '')) &&
    isId(cell.writeId) &&
    Array.isArray(cell.recent) &&
    cell.recent.every(isId) &&
    cell.value !== undefined;
  if (!isSound) return 'holds something that is no cell of a fence; it is left alone, and admits nobody';
  if (cell.resource === resource) return null;
  return `holds the cell of ${show(cell.resource)}: two resources must not have one place`;
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/**
 * What became of a change of `base` that nobody has confirmed, from what is there now:
 *
 * - `written`: it is there, or was.
 * - `passed`: another change was faster. What was sent was conditional on `base`, so it can never be carried out any more.
 * - `open`: all is as it was. The request may be lost, or on its way.
 * - `unknown`: so much has changed since that its trace, if there was one, is gone.
 */
export type Fate = 'written' | 'passed' | 'open' | 'unknown';

export function fateOf<V>(writeId: string, base: ConditionalCell<V> | null, now: ConditionalCell<V> | null): Fate {
  if (now === null) return base === null ? 'open' : 'unknown';
  if (now.writeId === writeId || now.recent.includes(writeId)) return 'written';
  if (base === null) return now.recent.length < RECENT ? 'passed' : 'unknown';
  if (now.writeId === base.writeId) return 'open';
  // As long as the list reaches back to `base`, every change since then is in it.
  return now.recent.includes(base.writeId) ? 'passed' : 'unknown';
}
