import { findStale, StaleTokenError } from '../errors.ts';

/** What an error of PostgreSQL says, whoever wraps it. */
export interface SqlError {
  readonly code: string;
  readonly message: string;
  readonly detail: string | undefined;
  /** As the server says it, in its language. */
  readonly severity: string | undefined;
}

/** No class begins with E, as EPIPE does, and of those with P only P0 is PostgreSQL's: P2010 is Prisma's. */
const SQLSTATE = /^(?!E|P[1-9])[0-9A-Z]{5}$/;

/** Where clients and ORMs keep the error that they wrap. */
const INSIDE = [
  'cause',
  'originalError',
  'original',
  'parent',
  'driverError',
  'nativeError',
  'meta',
  'driverAdapterError',
];

/** How deep and how wide to look. */
const MOST = 32;

/** Anything can be thrown: a getter that throws says nothing. */
function read(value: unknown, name: string): unknown {
  try {
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const text = read(value, name);
    if (typeof text === 'string') return text;
  }
  return undefined;
}

/** The first error in the chain that PostgreSQL itself gave, or that has one of `codes`. */
export function sqlErrorOf(error: unknown, isWanted: (code: string) => boolean = () => true): SqlError | undefined {
  const queue: unknown[] = [error];
  for (let at = 0; at < queue.length && at < MOST; at++) {
    const each = queue[at];
    const code = textOf(each, 'originalCode', 'code', 'sqlState');
    if (code !== undefined && SQLSTATE.test(code) && isWanted(code)) {
      return {
        code,
        message: textOf(each, 'originalMessage', 'message') ?? code,
        detail: textOf(each, 'detail'),
        severity: textOf(each, 'severity'),
      };
    }
    for (const name of INSIDE) {
      const inside = read(each, name);
      if (typeof inside === 'object' && inside !== null && !queue.includes(inside)) queue.push(inside);
    }
  }
  return undefined;
}

/** The refusal that `error` tells of, or is wrapped around. */
export function staleIn(error: unknown, fence: string): StaleTokenError | undefined {
  const found = sqlErrorOf(error, (code) => code === 'LH001');
  if (found === undefined) return findStale(error);
  const { resource, fencingToken, highest } = detailOf(found);
  return new StaleTokenError(resource, { fence, fencingToken, highest });
}

interface Detail {
  readonly resource: string;
  readonly fencingToken: number;
  readonly highest: { readonly fencingToken: number; readonly leaseId: string | null };
}

/** The DETAIL of the SQL function `refuse`; a client that drops it leaves the numbers of the message. */
function detailOf({ detail, message }: SqlError): Detail {
  for (const text of [detail, /\{.*\}/s.exec(message)?.[0]]) {
    try {
      const parsed = JSON.parse(text ?? '') as Partial<Detail> | null;
      if (typeof parsed?.fencingToken === 'number' && typeof parsed.highest?.fencingToken === 'number') {
        return parsed as Detail;
      }
    } catch {
      // No JSON: the next one.
    }
  }
  const said = /token (\d+) of (.*) is stale, (\d+) was admitted/s.exec(message);
  return {
    resource: said?.[2] ?? '(not told)',
    fencingToken: Number(said?.[1] ?? 0),
    highest: { fencingToken: Number(said?.[3] ?? 0), leaseId: null },
  };
}
