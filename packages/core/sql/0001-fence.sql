-- The fence of Leasehold: tables and functions in schema leasehold. May be run again.
do $leasehold$
begin
if pg_catalog.current_setting('server_version_num')::integer < 130000 then
  raise exception 'leasehold: PostgreSQL 13 or later is needed, this is %', pg_catalog.current_setting('server_version');
end if;
-- One at a time, until the end of this transaction.
perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('leasehold schema leasehold', 0));
if pg_catalog.to_regnamespace('leasehold') is null then
  create schema leasehold;
end if;
if pg_catalog.to_regclass('leasehold.versions') is null then
  create table leasehold.versions (
    version integer primary key,
    installed_at timestamptz not null default pg_catalog.clock_timestamp()
  );
  comment on table leasehold.versions is 'Versions of this schema that were installed here.';
end if;

if not exists (select from leasehold.versions where version = 1) then
create table leasehold.fence (
  resource text collate "C" primary key,
  token bigint not null check (token between 1 and 9007199254740991),
  lease_id text,
  changed_at timestamptz not null default pg_catalog.clock_timestamp()
);
comment on table leasehold.fence is 'The highest grant admitted for each resource. Whoever comes with a lower token is refused (LH001).';
comment on column leasehold.fence.resource is 'Qualified name, <namespace>/<resource>';
comment on column leasehold.fence.token is 'Fencing token of the highest grant, grows with time (about microseconds since 1970)';
comment on column leasehold.fence.lease_id is 'Acquisition that the token was given to; null: sealed by hand, nobody has this token';
comment on column leasehold.fence.changed_at is 'When this grant was admitted first, or the seal was set';

create table leasehold.horizon (
  one boolean primary key default true check (one),
  token bigint not null default 0
);
insert into leasehold.horizon default values;
comment on table leasehold.horizon is 'One row. A resource that leasehold.fence does not know admits only tokens above this one: see leasehold.prune.';
comment on column leasehold.horizon.token is 'The highest token that prune has ever deleted';

create table leasehold.bypasses (
  at timestamptz not null default pg_catalog.clock_timestamp(),
  role text not null default current_user,
  login text not null default session_user,
  reason text not null check (reason ~ '[^[:space:]]'),
  xid xid8 not null default pg_catalog.pg_current_xact_id()
);
comment on table leasehold.bypasses is 'Transactions that wrote to protected tables without a guard. INSERT on this table is the permission to do so.';

create function leasehold.check_grant(
  resource text, token bigint, lease_id text, idle_ms integer, lock_ms integer
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if resource is null or resource not like '_%/_%' then
    raise exception 'leasehold: % is no qualified name', coalesce(quote_literal(resource), 'null') using errcode = '22023',
      hint = 'Give the qualified name, <namespace>/<resource>.';
  elsif token is null or token not between 1 and 9007199254740991 then
    raise exception 'leasehold: % is no fencing token', coalesce(token::text, 'null') using errcode = '22023',
      hint = 'Give the fencing token of a lease.';
  elsif lease_id is null or lease_id = '' then
    raise exception 'leasehold: the lease id is null or empty' using errcode = '22023',
      hint = 'Give the id of the lease that has the token: the number alone proves nothing.';
  elsif idle_ms is null or idle_ms < 1 then
    raise exception 'leasehold: idle_ms is %', coalesce(idle_ms::text, 'null') using errcode = '22023',
      hint = 'Give the milliseconds after which a transaction that stands still is ended, at least 1.';
  elsif lock_ms is null or lock_ms < 1 then
    raise exception 'leasehold: lock_ms is %', coalesce(lock_ms::text, 'null') using errcode = '22023',
      hint = 'Give the milliseconds to wait for open transactions of earlier owners, at least 1.';
  elsif token > (extract(epoch from clock_timestamp()) * 1000000)::bigint + 86400000000 then
    raise exception 'leasehold: token % of % is more than 24 h ahead of this server', token, resource
      using errcode = 'LH003', hint = 'Check the clocks, and where this number came from.';
  end if;
end $function$;
comment on function leasehold.check_grant(text, bigint, text, integer, integer) is 'Internal. Raises 22023 for what is no name, token, lease id or limit, LH003 for a token more than 24 h ahead of the clock.';

create function leasehold.admission(resource text, token bigint, lease_id text, lock_ms integer) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  lock_before text := current_setting('lock_timeout');
  seen_token bigint;
  seen_lease text;
  is_admitted boolean;
begin
  if lock_before = '0' or lock_before::interval > make_interval(secs => lock_ms / 1000.0) then
    perform set_config('lock_timeout', lock_ms::text, true);
  end if;
  for round in 1 .. 1000 loop
    select f.token, f.lease_id into seen_token, seen_lease from leasehold.fence f where f.resource = admission.resource;
    if not found then
      -- First the row, then the horizon. The other way round, a prune could delete the row after the horizon was read and
      -- before the insert, and an old grant would be admitted. Under REPEATABLE READ a horizon that was raised since the
      -- snapshot ends in 40001.
      insert into leasehold.fence (resource, token, lease_id) values (resource, token, lease_id) on conflict do nothing;
      if found then
        select h.token into strict seen_token from leasehold.horizon h for share;
        is_admitted := token > seen_token;
        -- Unknown resources are sealed up to the horizon, so this changes nothing, and needs no right to delete.
        if not is_admitted then
          update leasehold.fence f set token = seen_token, lease_id = null where f.resource = admission.resource;
        end if;
      end if;
    elsif seen_token > token or (seen_token = token and seen_lease is distinct from lease_id) then
      -- Decided without a lock: what is refused must not keep anybody waiting.
      is_admitted := false;
    elsif seen_token = token then
      perform from leasehold.fence f
        where f.resource = admission.resource and f.token = admission.token and f.lease_id = admission.lease_id
        for share;
      if found then is_admitted := true; end if;
    elsif current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
      -- The snapshot may be older than what the previous owner has committed, and would be read under a valid guard.
      raise exception 'leasehold: token % of % was not activated before this % transaction',
        token, resource, upper(current_setting('transaction_isolation'))
        using errcode = 'LH004',
        hint = 'Call leasehold.activate in a READ COMMITTED transaction of its own, then begin this one again.';
    else
      -- Waits for the open transactions of the grants before.
      update leasehold.fence f
        set token = admission.token, lease_id = admission.lease_id, changed_at = clock_timestamp()
        where f.resource = admission.resource and f.token < admission.token;
      if found then is_admitted := true; end if;
    end if;
    exit when is_admitted is not null;
  end loop;
  perform set_config('lock_timeout', lock_before, true);
  if is_admitted is null then
    raise exception 'leasehold: % changes all the time', resource using errcode = '40001';
  end if;
  return is_admitted;
end $function$;
comment on function leasehold.admission(text, bigint, text, integer) is 'Internal. Admits a grant whose token is higher than the highest, or equal with the same lease_id; false: stale.';

create function leasehold.highest(resource text, out token bigint, out lease_id text) returns record
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  select f.token, f.lease_id into token, lease_id from leasehold.fence f where f.resource = highest.resource;
  if not found then select nullif(h.token, 0) into token from leasehold.horizon h; end if;
end $function$;
comment on function leasehold.highest(text) is 'The highest token admitted, or sealed (lease_id null). Nulls: none yet.';

create function leasehold.refuse(resource text, token bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  high_token bigint;
  high_lease text;
begin
  select h.token, h.lease_id into high_token, high_lease from leasehold.highest(resource) h;
  raise exception using errcode = 'LH001',
    message = format('leasehold: token %s of %s is stale, %s was admitted', token, resource, high_token),
    detail = json_build_object('resource', resource, 'fencingToken', token,
      'highest', json_build_object('fencingToken', high_token, 'leaseId', high_lease))::text,
    hint = 'A later owner has begun, or this resource was sealed. Roll back and stop this run.';
end $function$;
comment on function leasehold.refuse(text, bigint) is 'Internal. Raises LH001.';

create function leasehold.limits(resource text, token bigint, lease_id text, idle_ms integer, lock_ms integer) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  idle_before constant text := current_setting('idle_in_transaction_session_timeout');
  server constant text := version();
  done text := '';
begin
  perform leasehold.check_grant(resource, token, lease_id, idle_ms, lock_ms);
  -- An owner that is stopped in mid-transaction must not hold up its successor: only lowered, until the transaction ends.
  -- A PGlite holds up nobody else's process, and stands still for ever when it is to end its only session.
  if (idle_before = '0' or idle_before::interval > make_interval(secs => idle_ms / 1000.0)) and server not like '%emcc%' then
    done := set_config('idle_in_transaction_session_timeout', idle_ms::text, true);
  end if;
  -- Nor one that no longer reads what the server sends it: such a session is not idle. Over TCP, and on Linux alone, which
  -- gives up a connection whose window stays shut for so long.
  if server like '%linux%' and current_setting('tcp_user_timeout')::integer not between 1 and idle_ms then
    done := set_config('tcp_user_timeout', idle_ms::text, true);
  end if;
  return done;
end $function$;
comment on function leasehold.limits(text, bigint, text, integer, integer) is 'Internal. Checks a grant and its limits, and lowers those of this transaction.';

create function leasehold.marks(resource text) returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  mine constant text := pg_current_xact_id()::text || ' ';
  mark constant text := encode(convert_to(resource, 'UTF8'), 'hex') || ' ';
  marks constant text := coalesce(current_setting('leasehold.guarded', true), '');
begin
  return case
    when not starts_with(marks, mine) then mine || mark
    when position(' ' || mark in marks) = 0 then marks || mark
    else marks
  end;
end $function$;
comment on function leasehold.marks(text) is 'Internal. What this transaction is guarded for, and this resource: its number and the names, in hex.';

create function leasehold.guard(
  resource text, token bigint, lease_id text, idle_ms integer default 5000, lock_ms integer default 6000
) returns boolean language plpgsql as $function$
begin
  -- The usual case: this very grant, which was looked at when it was admitted. FOR SHARE lets the transactions of one grant
  -- run side by side, and makes a newer grant wait for them. Nothing is waited for here: a row that is being changed is
  -- looked at again, with a limit.
  perform from leasehold.fence f
    where f.resource operator(pg_catalog.=) guard.resource and f.token operator(pg_catalog.=) guard.token
      and f.lease_id operator(pg_catalog.=) guard.lease_id
    for share skip locked;
  if not found then
    perform leasehold.limits(resource, token, lease_id, idle_ms, lock_ms);
    if not leasehold.admission(resource, token, lease_id, lock_ms) then
      perform leasehold.refuse(resource, token);
    end if;
  end if;
  return (pg_catalog.set_config('leasehold.guarded', case
      when coalesce(pg_catalog.current_setting('leasehold.guarded', true), '') operator(pg_catalog.=) ''
      then pg_catalog.pg_current_xact_id()::pg_catalog.text operator(pg_catalog.||) ' '
        operator(pg_catalog.||) pg_catalog.encode(pg_catalog.convert_to(resource, 'UTF8'), 'hex') operator(pg_catalog.||) ' '
      else leasehold.marks(resource)
    end, true) operator(pg_catalog.||) case
      when pg_catalog.current_setting('idle_in_transaction_session_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.current_setting('tcp_user_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.version() operator(pg_catalog.~~) '%linux%' and pg_catalog.version() operator(pg_catalog.!~~) '%emcc%'
        and idle_ms operator(pg_catalog.>) 0 and lock_ms operator(pg_catalog.>) 0
      then pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms::pg_catalog.text, true)
        operator(pg_catalog.||) pg_catalog.set_config('tcp_user_timeout', idle_ms::pg_catalog.text, true)
      else leasehold.limits(resource, token, lease_id, idle_ms, lock_ms)
    end) is not null;
end $function$;
comment on function leasehold.guard(text, bigint, text, integer, integer) is 'First statement of a transaction that writes for a lease. Raises LH001 if the grant is stale; else no later grant is admitted before this transaction ends. idle_ms: how long the transaction may stand still. lock_ms: how long to wait for transactions of earlier owners.';

create function leasehold.guard_write(
  resource text, token bigint, lease_id text, idle_ms integer, lock_ms integer
) returns text language plpgsql as $function$
begin
  -- The usual case: this very grant, which was looked at when it was admitted. FOR SHARE lets the transactions of one grant
  -- run side by side, and makes a newer grant wait for them. Nothing is waited for here: a row that is being changed is
  -- looked at again, with a limit.
  perform from leasehold.fence f
    where f.resource operator(pg_catalog.=) guard_write.resource and f.token operator(pg_catalog.=) guard_write.token
      and f.lease_id operator(pg_catalog.=) guard_write.lease_id
    for share skip locked;
  if not found then
    perform leasehold.limits(resource, token, lease_id, idle_ms, lock_ms);
    if not leasehold.admission(resource, token, lease_id, lock_ms) then
      perform leasehold.refuse(resource, token);
    end if;
  end if;
  return pg_catalog.set_config('leasehold.guarded', case
      when coalesce(pg_catalog.current_setting('leasehold.guarded', true), '') operator(pg_catalog.=) ''
      then pg_catalog.pg_current_xact_id()::pg_catalog.text operator(pg_catalog.||) ' '
        operator(pg_catalog.||) pg_catalog.encode(pg_catalog.convert_to(resource, 'UTF8'), 'hex') operator(pg_catalog.||) ' '
      else leasehold.marks(resource)
    end, true) operator(pg_catalog.||) case
      when pg_catalog.current_setting('idle_in_transaction_session_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.current_setting('tcp_user_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.version() operator(pg_catalog.~~) '%linux%' and pg_catalog.version() operator(pg_catalog.!~~) '%emcc%'
        and idle_ms operator(pg_catalog.>) 0 and lock_ms operator(pg_catalog.>) 0
      then pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms::pg_catalog.text, true)
        operator(pg_catalog.||) pg_catalog.set_config('tcp_user_timeout', idle_ms::pg_catalog.text, true)
      else leasehold.limits(resource, token, lease_id, idle_ms, lock_ms)
    end operator(pg_catalog.||) '|' operator(pg_catalog.||) case
      when coalesce(pg_catalog.current_setting('leasehold.place', true), '') operator(pg_catalog.<>) ''
      then pg_catalog.current_setting('leasehold.place')
      else coalesce(leasehold.place_of_session(), '')
    end;
end $function$;
comment on function leasehold.guard_write(text, bigint, text, integer, integer) is 'Internal. As guard, but its answer has the name of the transaction, which outcome asks for: begins with the xid, and has the place behind a bar.';

create function leasehold.admit(
  resource text, token bigint, lease_id text, idle_ms integer default 5000, lock_ms integer default 6000
) returns boolean language plpgsql as $function$
begin
  -- The usual case: this very grant, which was looked at when it was admitted. FOR SHARE lets the transactions of one grant
  -- run side by side, and makes a newer grant wait for them. Nothing is waited for here: a row that is being changed is
  -- looked at again, with a limit.
  perform from leasehold.fence f
    where f.resource operator(pg_catalog.=) admit.resource and f.token operator(pg_catalog.=) admit.token
      and f.lease_id operator(pg_catalog.=) admit.lease_id
    for share skip locked;
  if not found then
    perform leasehold.limits(resource, token, lease_id, idle_ms, lock_ms);
    if not leasehold.admission(resource, token, lease_id, lock_ms) then
      return false;
    end if;
  end if;
  return (pg_catalog.set_config('leasehold.guarded', case
      when coalesce(pg_catalog.current_setting('leasehold.guarded', true), '') operator(pg_catalog.=) ''
      then pg_catalog.pg_current_xact_id()::pg_catalog.text operator(pg_catalog.||) ' '
        operator(pg_catalog.||) pg_catalog.encode(pg_catalog.convert_to(resource, 'UTF8'), 'hex') operator(pg_catalog.||) ' '
      else leasehold.marks(resource)
    end, true) operator(pg_catalog.||) case
      when pg_catalog.current_setting('idle_in_transaction_session_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.current_setting('tcp_user_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.version() operator(pg_catalog.~~) '%linux%' and pg_catalog.version() operator(pg_catalog.!~~) '%emcc%'
        and idle_ms operator(pg_catalog.>) 0 and lock_ms operator(pg_catalog.>) 0
      then pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms::pg_catalog.text, true)
        operator(pg_catalog.||) pg_catalog.set_config('tcp_user_timeout', idle_ms::pg_catalog.text, true)
      else leasehold.limits(resource, token, lease_id, idle_ms, lock_ms)
    end) is not null;
end $function$;
comment on function leasehold.admit(text, bigint, text, integer, integer) is 'As guard, but false instead of LH001: then roll back.';

create function leasehold.activate(
  resource text, token bigint, lease_id text, lock_ms integer default 6000
) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  perform leasehold.check_grant(resource, token, lease_id, 1, lock_ms);
  if not leasehold.admission(resource, token, lease_id, lock_ms) then
    perform leasehold.refuse(resource, token);
  end if;
  return true;
end $function$;
comment on function leasehold.activate(text, bigint, text, integer) is 'First, empty operation of a grant, in a transaction of its own, before anything is read. Raises LH001 if it is stale.';

create function leasehold.seal(resource text, token bigint, lock_ms integer default 6000) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  lock_before text := current_setting('lock_timeout');
  seen_token bigint;
begin
  perform leasehold.check_grant(resource, token, 'nobody', 1, lock_ms);
  if lock_before = '0' or lock_before::interval > make_interval(secs => lock_ms / 1000.0) then
    perform set_config('lock_timeout', lock_ms::text, true);
  end if;
  for round in 1 .. 1000 loop
    update leasehold.fence f set token = seal.token, lease_id = null, changed_at = clock_timestamp()
      where f.resource = seal.resource and f.token <= seal.token;
    exit when found;
    perform from leasehold.fence f where f.resource = seal.resource and f.token > seal.token;
    exit when found;
    insert into leasehold.fence (resource, token) values (resource, token) on conflict do nothing;
    if found then
      select h.token into strict seen_token from leasehold.horizon h for share;
      -- Unknown resources are sealed up to the horizon already: a lower row would open them.
      if token < seen_token then
        update leasehold.fence f set token = seen_token where f.resource = seal.resource;
      end if;
      exit;
    end if;
  end loop;
  perform set_config('lock_timeout', lock_before, true);
  return true;
end $function$;
comment on function leasehold.seal(text, bigint, integer) is 'Makes every grant up to this token stale, and admits nobody. Waits for open transactions. Never lowers.';

create function leasehold.system() returns text language plpgsql as $function$
begin
  return (select y.system_identifier from pg_catalog.pg_control_system() y);
exception when others then
  -- Not every hosted PostgreSQL permits this.
  return null;
end $function$;
comment on function leasehold.system() is 'Internal. The identifier of this database system; null where that is not permitted.';

create function leasehold.place() returns text language plpgsql as $function$
begin
  if pg_catalog.current_setting('server_version_num')::integer operator(pg_catalog.>=) 150000 then
    return pg_catalog.format('%s %s',
      pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8),
      extract(epoch from pg_catalog.pg_stat_get_bgwriter_stat_reset_time()));
  end if;
  return (select pg_catalog.format('%s %s %s', c.timeline_id, c.checkpoint_lsn, y.system_identifier)
    from pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_system() y);
exception when others then
  -- Nor this. Then nothing can be proved, and the outcome stays unknown.
  return null;
end $function$;
comment on function leasehold.place() is 'Internal. In which life of which server a transaction is; null where that cannot be told.';

create function leasehold.place_of_session() returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  place constant text := leasehold.place();
begin
  -- No session outlives its server, and none has written before its server was a primary. Before PostgreSQL 15 the place
  -- changes with each checkpoint.
  if place is not null and current_setting('server_version_num')::integer >= 150000 then
    perform set_config('leasehold.place', place, false);
  end if;
  return place;
end $function$;
comment on function leasehold.place_of_session() is 'Internal. place(), remembered in a setting of the session where it holds for as long as the session does.';

create procedure leasehold.ending(xid text) language plpgsql as $procedure$
begin
  if coalesce(pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text operator(pg_catalog.=) xid, false) then
    return;
  end if;
  raise exception 'leasehold: this is not the transaction of the guard' using errcode = 'LH005',
    hint = 'Leave BEGIN, COMMIT and ROLLBACK to the fence.';
end $procedure$;
comment on procedure leasehold.ending(text) is 'Internal. Sent before COMMIT: raises LH005 if the body has ended the transaction that the guard was in.';

create function leasehold.outcome(xid text, place text, system text default null) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  -- Before the status: what changes later cannot have made it wrong.
  place_now constant text := leasehold.place();
  is_same constant boolean := coalesce(place = place_now and place <> '', false);
  status text;
begin
  -- A standby shares its life with the primary, and may not have heard of the commit yet.
  if pg_is_in_recovery() then return 'unknown'; end if;
  if not is_same and (
    split_part(place, ' ', 1) is distinct from split_part(place_now, ' ', 1)
    or coalesce(nullif(split_part(place, ' ', 3), ''), system, '') is distinct from leasehold.system()
  ) then
    return 'unknown';
  end if;
  begin
    status := pg_xact_status(xid::xid8);
  exception when invalid_parameter_value then
    -- In the future: a crash has forgotten it.
    status := 'aborted';
  end;
  return case when status = 'committed' and not is_same then 'unknown' else coalesce(status, 'unknown') end;
end $function$;
comment on function leasehold.outcome(text, text, text) is 'committed, aborted, in progress or unknown, for pg_current_xact_id(), place() and system() of that transaction.';

create function leasehold.bypass(reason text) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if reason is null or reason !~ '[^[:space:]]' then
    raise exception 'leasehold: a bypass needs a reason' using errcode = '22023';
  end if;
  insert into leasehold.bypasses (reason) values (reason);
  perform set_config('leasehold.bypassed', pg_current_xact_id()::text, true);
  raise notice 'leasehold: this transaction passes all fences, says %: %', current_user, reason;
  return true;
end $function$;
comment on function leasehold.bypass(text) is 'Lets this transaction write to protected tables without a guard. For migrations and repairs; recorded in leasehold.bypasses.';

create function leasehold.refuse_truncate() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if current_setting('leasehold.bypassed', true) = pg_current_xact_id()::text then return null; end if;
  raise exception 'leasehold: %.% is protected and cannot be truncated', tg_table_schema, tg_table_name
    using errcode = 'LH002',
    hint = 'Delete the rows under a guard, or call leasehold.bypass(reason) first in this transaction.';
end $function$;
comment on function leasehold.refuse_truncate() is 'Internal. Trigger of protected tables.';

create function leasehold.protect(protected regclass, expression text) returns boolean language plpgsql as $function$
declare
  -- The caller's path is for the expression alone: whoever may create functions in one of its schemas would else choose what
  -- format is, in the hands of whoever protects.
  path constant pg_catalog.text := pg_catalog.current_setting('search_path');
  schemas constant pg_catalog.name[] := pg_catalog.current_schemas(false);
  pinned constant pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  trial text;
  kind "char";
  target text;
  guardian text;
  part record;
begin
  select c.relkind, format('%I.%I', n.nspname, c.relname) into kind, target
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = protected;
  if kind is null or kind not in ('r', 'p') then
    raise exception 'leasehold: % is no table', coalesce(target, 'null') using errcode = '42809',
      hint = 'Views and foreign tables cannot be protected: protect the tables behind them.';
  end if;
  if expression is null or expression !~ '[^[:space:]]' then
    raise exception 'leasehold: the expression is null or empty' using errcode = '22023',
      hint = format('Give the qualified name of a row''s resource, such as %L.', '''shop/customer:'' || NEW.customer_id');
  end if;
  if exists (select from pg_catalog.pg_inherits i where i.inhparent = protected) and kind = 'r' then
    raise warning 'leasehold: % has children by inheritance, which are not protected with it', target;
  end if;
  -- Columns, functions and types are looked up now and not when the first row is written: it must be text. Runs on no row.
  trial := format(E'select pg_catalog.starts_with((\n%s\n), %L) from %s as new limit 0', expression, '', target);
  perform set_config('search_path', path, true);
  execute trial;
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

  perform leasehold.unprotect(protected);
  guardian := format('leasehold.%I', 'protect_' || substr(md5(random()::text || clock_timestamp()::text), 1, 12));
  -- The names in the expression mean what they mean now, whatever the search_path of who writes.
  execute format('create function %s() returns trigger language plpgsql set search_path = %s as %L', guardian,
    (select coalesce(string_agg(quote_ident(p), ', ') || ', ', '') || 'pg_temp'
      from unnest(schemas) p where p not like 'pg_temp%'),
    format($body$
#variable_conflict use_column
declare
  leasehold_xid constant text := pg_catalog.pg_current_xact_id()::text;
  leasehold_marks constant text := coalesce(pg_catalog.current_setting('leasehold.guarded', true), '');
  leasehold_name text;
begin
  if pg_catalog.current_setting('leasehold.bypassed', true) = leasehold_xid then return null; end if;
  for leasehold_side in 1 .. 2 loop
    if leasehold_side = 1 then
      continue when tg_op = 'DELETE';
    else
      continue when tg_op = 'INSERT';
      new := old;
    end if;
    leasehold_name := cast((
%s
) as text);
    if leasehold_name is null or not pg_catalog.starts_with(leasehold_marks, leasehold_xid || ' ')
      or pg_catalog.strpos(leasehold_marks,
        ' ' || pg_catalog.encode(pg_catalog.convert_to(leasehold_name, 'UTF8'), 'hex') || ' ') = 0 then
      raise exception 'leasehold: %% of a row of %%.%% without a guard of %%', tg_op, tg_table_schema, tg_table_name,
        coalesce(leasehold_name, 'a resource (its name is null)')
        using errcode = 'LH002', table = tg_table_name, schema = tg_table_schema,
        hint = 'Call leasehold.guard first in this transaction, or leasehold.bypass(reason) in a migration.';
    end if;
  end loop;
  return null;
end $body$, expression));
  execute format('comment on function %s() is %L', guardian, 'Internal. Trigger of ' || target || ': ' || expression);
  -- After the row: what other triggers, defaults and generated columns made of it is what counts.
  execute format('create trigger leasehold_protect after insert or update or delete on %s for each row execute function %s()',
    target, guardian);
  -- Row triggers come to partitions by themselves, statement triggers do not.
  for part in
    with recursive family(oid) as (
      select protected::oid
      union all
      select i.inhrelid from pg_catalog.pg_inherits i join family f on i.inhparent = f.oid where kind = 'p'
    )
    select format('%I.%I', n.nspname, c.relname) as name
      from family f join pg_catalog.pg_class c on c.oid = f.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p')
  loop
    execute format('create trigger leasehold_protect_truncate before truncate on %s for each statement '
      || 'execute function leasehold.refuse_truncate()', part.name);
  end loop;
  perform set_config('search_path', path, true);
  return true;
end $function$;
comment on function leasehold.protect(regclass, text) is 'Refuses (LH002) rows written to a table without a guard of their resource in the same transaction. The expression over NEW gives the qualified name and is used for old rows too. Again: replaces the expression.';

create function leasehold.unprotect(protected regclass) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  target text;
  was_protected boolean;
  part record;
begin
  select format('%I.%I', n.nspname, c.relname) into target
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = protected;
  if target is null then return false; end if;
  was_protected := exists (select from pg_catalog.pg_trigger t
    where t.tgrelid = protected and t.tgname = 'leasehold_protect' and not t.tgisinternal);
  for part in
    with recursive family(oid) as (
      select protected::oid
      union all
      select i.inhrelid from pg_catalog.pg_inherits i join family f on i.inhparent = f.oid
        join pg_catalog.pg_class p on p.oid = f.oid and p.relkind = 'p'
    )
    select format('%I.%I', n.nspname, c.relname) as name
      from family f join pg_catalog.pg_class c on c.oid = f.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      join pg_catalog.pg_trigger t on t.tgrelid = c.oid and t.tgname = 'leasehold_protect_truncate'
  loop
    execute format('drop trigger leasehold_protect_truncate on %s', part.name);
  end loop;
  if was_protected then
    execute format('drop trigger leasehold_protect on %s', target);
  end if;
  -- What no table uses: this one's, and those of tables that were dropped.
  for part in
    select p.oid::regprocedure::text as name from pg_catalog.pg_proc p
      where p.pronamespace = 'leasehold'::regnamespace and p.proname like 'protect\_%' and p.prorettype = 'trigger'::regtype
        and pg_catalog.pg_has_role(p.proowner, 'USAGE')
        and not exists (select from pg_catalog.pg_trigger t where t.tgfoid = p.oid)
  loop
    execute format('drop function %s', part.name);
  end loop;
  return was_protected;
end $function$;
comment on function leasehold.unprotect(regclass) is 'Takes back protect. False if the table was not protected.';

create function leasehold.prune(older_than interval) returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  deleted bigint;
  highest_deleted bigint;
begin
  -- A token is at most a day ahead of its row's changed_at, so the horizon stays behind the clock, and behind new grants.
  if older_than is null or older_than < interval '1 day' then
    raise exception 'leasehold: prune refuses less than 1 day, this is %', coalesce(older_than::text, 'null')
      using errcode = '22023', hint = 'Give an interval longer than any lease is held: what is held longer is refused.';
  end if;
  -- The horizon first: an admission that inserts looks at it afterwards, and waits here for the outcome.
  perform from leasehold.horizon for update;
  with old as (
    select f.resource from leasehold.fence f where f.changed_at < clock_timestamp() - older_than for update skip locked
  ), gone as (
    delete from leasehold.fence f using old where f.resource = old.resource returning f.token
  )
  select count(*), max(gone.token) into deleted, highest_deleted from gone;
  update leasehold.horizon set token = greatest(token, highest_deleted) where highest_deleted is not null;
  return deleted;
end $function$;
comment on function leasehold.prune(interval) is 'Deletes rows whose grant is older, and raises the horizon to the highest token deleted. Give more than any lease is held. Returns how many.';

insert into leasehold.versions (version) values (1);
end if;

end $leasehold$;
