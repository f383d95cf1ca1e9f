import { systemClock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError } from '../errors.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { driverOf, type PostgresClient } from './client.ts';
import type { Row } from './driver.ts';
import { checkedSchema, SCHEMA_VERSION, type SchemaOptions } from './schema.ts';

export interface SchemaStatusOptions extends SchemaOptions {
  /** How many of the highest tokens to tell, 0 to 1000. @default 10 */
  readonly limit?: number | undefined;
  /** Within which each of two questions is answered. @default '5s' */
  readonly timeout?: Duration | undefined;
}

/** What of the fence is in a database. */
export interface SchemaStatus {
  /** `outdated`: `installSchema` has something to do. `newer`: a later Leasehold has installed it, which this one can use. */
  readonly state: 'missing' | 'outdated' | 'current' | 'newer';
  /** 0 if it is missing. */
  readonly version: number;
  /** The version that this Leasehold installs. */
  readonly latest: number;
  /** It is a standby, which shows what has arrived from its primary; only there can a fence admit or refuse. */
  readonly isStandby: boolean;
  /** Of how many resources a grant or a seal is kept. */
  readonly rows: number;
  /** Resources without a row admit only tokens above it; 0 until `prune` has forgotten something. */
  readonly horizon: number;
  /** How many transactions have passed without a guard. Null if this role may not see it. */
  readonly bypasses: number | null;
  readonly protectedTables: readonly ProtectedTable[];
  /** The highest first. */
  readonly highest: readonly FenceRow[];
}

export interface ProtectedTable {
  /** `schema.table`, quoted where it must be. */
  readonly table: string;
  /** Gives the qualified name of a row's resource. */
  readonly expression: string;
  /** False: somebody has disabled its trigger, and it refuses nothing. */
  readonly isEnabled: boolean;
}

export interface FenceRow {
  readonly resource: string;
  readonly fencingToken: number;
  /** Null for a seal. */
  readonly leaseId: string | null;
  /** When this grant was admitted first, or the seal was set, by the server's clock. */
  readonly changedAt: Date;
}

const MISSING = { state: 'missing', version: 0, latest: SCHEMA_VERSION, rows: 0, horizon: 0, bypasses: null } as const;

/**
 * Looks what of the fence is installed, and what it holds. Writes nothing, and works on a standby. The role needs USAGE on the schema, and SELECT on
 * `versions`, `fence` and `horizon`.
 *
 * Rejects with the client's own error, or with one that says that there was no answer within `timeout`; throws `ConfigError`
 * for an option.
 */
export async function schemaStatus(client: PostgresClient, options: SchemaStatusOptions = {}): Promise<SchemaStatus> {
  refuseUnknown(options, ['schema', 'limit', 'timeout']);
  const { schema = 'leasehold', limit = 10, timeout = '5s' } = options;
  const s = checkedSchema(schema);
  if (!Number.isSafeInteger(limit) || limit < 0 || limit > 1000) {
    throw new ConfigError('limit', `is ${show(limit)}: must be a whole number, 0 to 1000`);
  }
  const timeoutMs = parseDuration('timeout', timeout);
  if (timeoutMs < 1 || timeoutMs > 2 ** 31 - 1) {
    throw new ConfigError('timeout', `is ${timeoutMs} ms: must be 1 ms to 2147483647 ms`);
  }
  const driver = driverOf(client, systemClock);
  const there = parsed(await driver.look(isThereSql(s), timeoutMs)) as There;
  if (!there.isThere) return { ...MISSING, isStandby: there.isStandby, protectedTables: [], highest: [] };
  const found = parsed(await driver.look(foundSql(s, limit, there.seesBypasses), timeoutMs)) as Found;
  const { version } = found;
  return {
    ...found,
    isStandby: there.isStandby,
    state: version < SCHEMA_VERSION ? 'outdated' : version > SCHEMA_VERSION ? 'newer' : 'current',
    latest: SCHEMA_VERSION,
    highest: found.highest.map((row) => ({ ...row, changedAt: new Date(row.changedAt) })),
  };
}

interface There {
  readonly isThere: boolean;
  readonly isStandby: boolean;
  readonly seesBypasses: boolean;
}

interface Found extends Pick<SchemaStatus, 'version' | 'rows' | 'horizon' | 'bypasses' | 'protectedTables'> {
  readonly highest: readonly (Omit<FenceRow, 'changedAt'> & { readonly changedAt: number })[];
}

/** One text: parsers of other types are the user's. */
function parsed([json]: Row): unknown {
  return JSON.parse(String(json));
}

/** `has_table_privilege` of what is not there is an error, of null it is null. */
const isThereSql = (s: string): string => `select pg_catalog.json_build_object(
  'isStandby', pg_catalog.pg_is_in_recovery(),
  'isThere', pg_catalog.to_regclass('${s}.versions') is not null,
  'seesBypasses', coalesce(
    pg_catalog.has_table_privilege(pg_catalog.to_regclass('${s}.bypasses')::pg_catalog.oid, 'SELECT'), false)
)::pg_catalog.text`;

/** Partitions have the trigger of their table; they are not told one by one. The expression is in the comment that `protect` made. */
const foundSql = (s: string, limit: number, seesBypasses: boolean): string => `
select pg_catalog.json_build_object(
  'version', (select coalesce(pg_catalog.max(v.version), 0) from ${s}.versions v),
  'rows', (select pg_catalog.count(*) from ${s}.fence),
  'horizon', (select h.token from ${s}.horizon h),
  'bypasses', ${seesBypasses ? `(select pg_catalog.count(*) from ${s}.bypasses)` : 'null'},
  'protectedTables', (
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
      'table', p.name,
      'expression', coalesce(pg_catalog.substring(p.about, '^Internal[.] Trigger of .*?: (.*)$'), ''),
      'isEnabled', p.enabled in ('O', 'A')
    ) order by p.name), '[]') from (
      select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, t.tgenabled as enabled,
        pg_catalog.obj_description(f.oid, 'pg_proc') as about
      from pg_catalog.pg_trigger t
        join pg_catalog.pg_proc f on f.oid = t.tgfoid
        join pg_catalog.pg_class c on c.oid = t.tgrelid
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where t.tgname = 'leasehold_protect' and not t.tgisinternal and t.tgparentid = 0
        and f.pronamespace = pg_catalog.to_regnamespace('${s}')
    ) p
  ),
  'highest', (
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
      'resource', h.resource, 'fencingToken', h.token, 'leaseId', h.lease_id,
      'changedAt', extract(epoch from h.changed_at) * 1000
    ) order by h.token desc, h.resource), '[]')
    from (select f.* from ${s}.fence f order by f.token desc, f.resource limit ${limit}) h
  )
)::pg_catalog.text`;
