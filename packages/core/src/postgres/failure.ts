import { ConfigError, FenceUnavailableError, TokenOutOfRangeError } from '../errors.ts';
import { sqlErrorOf, staleIn } from './refusal.ts';

/** What the fence knows of the call that failed. */
export interface Call {
  readonly resource: string;
  readonly fence: string;
  readonly fencingToken: number;
  /** The schema, ready to be written. */
  readonly schema: string;
  /** Whether nothing can have been written, whatever went wrong. */
  readonly isCertain: boolean;
}

const NOT_INSTALLED = new Set(['42883', '42P01', '3F000', '42704']);

/** Worth another try, as a new transaction. */
export function isConflict(error: unknown): boolean {
  const code = sqlErrorOf(error)?.code;
  return code === '40001' || code === '40P01';
}

/** LH004: the grant must be activated before this transaction begins. */
export function isUnactivated(error: unknown): boolean {
  return sqlErrorOf(error)?.code === 'LH004';
}

/** An error of one of our own statements, as a Leasehold error. */
export function failureOf(error: unknown, call: Call): Error {
  const stale = staleIn(error, call.fence);
  if (stale !== undefined) return stale;
  const { resource, fence, schema } = call;
  const sql = sqlErrorOf(error);
  const outcome = call.isCertain || sql?.severity === 'ERROR' ? 'not-written' : 'unknown';
  const said = error instanceof Error ? error.message : String(error);
  const unavailable = (detail: string): Error => new FenceUnavailableError(resource, fence, detail, error, outcome);
  if (sql === undefined) return unavailable(said);
  if (sql.code === 'LH003') return new TokenOutOfRangeError(resource, call.fencingToken, `fence ${fence}`);
  if (NOT_INSTALLED.has(sql.code)) {
    return new ConfigError(
      'client',
      `its database has no fence in schema ${schema} (${sql.message}); install it with installSchema(client) or with sql/0001-fence.sql of @leasehold/core`,
      error,
    );
  }
  if (sql.code === '42501') {
    return unavailable(
      `${sql.message}; the role needs: grant usage on schema ${schema}, grant execute on all routines in schema ${schema}, ` +
        `grant select, insert, update on ${schema}.fence, grant select, update (one) on ${schema}.horizon`,
    );
  }
  if (sql.code === '55P03') return unavailable('a transaction of an earlier owner is open and holds the resource');
  return unavailable(`${sql.message} (${sql.code})`);
}
