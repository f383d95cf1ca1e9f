import { ConfigError } from '../errors.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { admission } from './sql/admission.ts';
import { outcome } from './sql/outcome.ts';
import { protect } from './sql/protect.ts';
import { prune } from './sql/prune.ts';
import { tables } from './sql/tables.ts';

export interface SchemaOptions {
  /** @default 'leasehold' */
  readonly schema?: string | undefined;
}

const IDENTIFIER = /^[a-z_][a-z0-9_]{0,47}$/;

/**
 * A schema as it is written in SQL. Throws `ConfigError` unless it is 1 to 48 of a-z, 0-9 and _, not beginning with a digit
 * or pg_: what PostgreSQL takes without quotes, and never more than the identifiers made with it can hold.
 */
export function checkedSchema(schema: unknown): string {
  if (typeof schema !== 'string' || !IDENTIFIER.test(schema) || schema.startsWith('pg_')) {
    throw new ConfigError(
      'schema',
      `is ${show(schema)}: must be 1 to 48 of a-z 0-9 _, not beginning with a digit or pg_`,
    );
  }
  // Quoted, because it may be a reserved word. The default is none, and reads better without.
  return schema === 'leasehold' ? schema : `"${schema}"`;
}

/** Version 1 is the first. A version that was published is never changed: what differs is the next one. */
const versions: readonly ((s: string) => string)[] = [
  (s) => [tables(s), admission(s), outcome(s), protect(s), prune(s)].join(''),
];

/** The version that `installSchema` installs. */
export const SCHEMA_VERSION: number = versions.length;

/**
 * The SQL that `installSchema` runs: tables and functions of the fence, for PostgreSQL 13 and later. One statement, so it
 * is done whole or not at all by whatever sends it; may be run again, and by several at once. `sql/0001-fence.sql` in this
 * package is this text for the default schema, for migration tools.
 */
export function schemaSql(options: SchemaOptions = {}): string {
  refuseUnknown(options, ['schema']);
  const { schema = 'leasehold' } = options;
  const s = checkedSchema(schema);
  const steps = versions.map(
    (sql, index) => `
if not exists (select from ${s}.versions where version = ${index + 1}) then
${sql(s).trim()}

insert into ${s}.versions (version) values (${index + 1});
end if;
`,
  );
  return `-- The fence of Leasehold: tables and functions in schema ${s}. May be run again.
do $leasehold$
begin
if pg_catalog.current_setting('server_version_num')::integer < 130000 then
  raise exception 'leasehold: PostgreSQL 13 or later is needed, this is %', pg_catalog.current_setting('server_version');
end if;
-- One at a time, until the end of this transaction.
perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('leasehold schema ${s}', 0));
if pg_catalog.to_regnamespace('${s}') is null then
  create schema ${s};
end if;
if pg_catalog.to_regclass('${s}.versions') is null then
  create table ${s}.versions (
    version integer primary key,
    installed_at timestamptz not null default pg_catalog.clock_timestamp()
  );
  comment on table ${s}.versions is 'Versions of this schema that were installed here.';
end if;
${steps.join('')}
end $leasehold$;
`;
}
