/** What the fence keeps. `s` is the schema, ready to be written. */
export const tables = (s: string): string => `
create table ${s}.fence (
  resource text collate "C" primary key,
  token bigint not null check (token between 1 and 9007199254740991),
  lease_id text,
  changed_at timestamptz not null default pg_catalog.clock_timestamp()
);
comment on table ${s}.fence is 'The highest grant admitted for each resource. Whoever comes with a lower token is refused (LH001).';
comment on column ${s}.fence.resource is 'Qualified name, <namespace>/<resource>';
comment on column ${s}.fence.token is 'Fencing token of the highest grant, grows with time (about microseconds since 1970)';
comment on column ${s}.fence.lease_id is 'Acquisition that the token was given to; null: sealed by hand, nobody has this token';
comment on column ${s}.fence.changed_at is 'When this grant was admitted first, or the seal was set';

create table ${s}.horizon (
  one boolean primary key default true check (one),
  token bigint not null default 0
);
insert into ${s}.horizon default values;
comment on table ${s}.horizon is 'One row. A resource that ${s}.fence does not know admits only tokens above this one: see ${s}.prune.';
comment on column ${s}.horizon.token is 'The highest token that prune has ever deleted';

create table ${s}.bypasses (
  at timestamptz not null default pg_catalog.clock_timestamp(),
  role text not null default current_user,
  login text not null default session_user,
  reason text not null check (reason ~ '[^[:space:]]'),
  xid xid8 not null default pg_catalog.pg_current_xact_id()
);
comment on table ${s}.bypasses is 'Transactions that wrote to protected tables without a guard. INSERT on this table is the permission to do so.';
`;
