import { settingOf } from './admission.ts';

/** Tables that refuse what was not guarded. They stop what was forgotten, not who means harm: anybody may set a setting. */
export const protect = (s: string): string => `
create function ${s}.bypass(reason text) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if reason is null or reason !~ '[^[:space:]]' then
    raise exception 'leasehold: a bypass needs a reason' using errcode = '22023';
  end if;
  insert into ${s}.bypasses (reason) values (reason);
  perform set_config('${settingOf(s)}.bypassed', pg_current_xact_id()::text, true);
  raise notice 'leasehold: this transaction passes all fences, says %: %', current_user, reason;
  return true;
end $function$;
comment on function ${s}.bypass(text) is 'Lets this transaction write to protected tables without a guard. For migrations and repairs; recorded in ${s}.bypasses.';

create function ${s}.refuse_truncate() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if current_setting('${settingOf(s)}.bypassed', true) = pg_current_xact_id()::text then return null; end if;
  raise exception 'leasehold: %.% is protected and cannot be truncated', tg_table_schema, tg_table_name
    using errcode = 'LH002',
    hint = 'Delete the rows under a guard, or call ${s}.bypass(reason) first in this transaction.';
end $function$;
comment on function ${s}.refuse_truncate() is 'Internal. Trigger of protected tables.';

create function ${s}.protect(protected regclass, expression text) returns boolean language plpgsql as $function$
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
  trial := format(E'select pg_catalog.starts_with((\\n%s\\n), %L) from %s as new limit 0', expression, '', target);
  perform set_config('search_path', path, true);
  execute trial;
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

  perform ${s}.unprotect(protected);
  guardian := format('${s}.%I', 'protect_' || substr(md5(random()::text || clock_timestamp()::text), 1, 12));
  -- The names in the expression mean what they mean now, whatever the search_path of who writes.
  execute format('create function %s() returns trigger language plpgsql set search_path = %s as %L', guardian,
    (select coalesce(string_agg(quote_ident(p), ', ') || ', ', '') || 'pg_temp'
      from unnest(schemas) p where p not like 'pg_temp%'),
    format($body$
#variable_conflict use_column
declare
  leasehold_xid constant text := pg_catalog.pg_current_xact_id()::text;
  leasehold_marks constant text := coalesce(pg_catalog.current_setting('${settingOf(s)}.guarded', true), '');
  leasehold_name text;
begin
  if pg_catalog.current_setting('${settingOf(s)}.bypassed', true) = leasehold_xid then return null; end if;
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
        hint = 'Call ${s}.guard first in this transaction, or ${s}.bypass(reason) in a migration.';
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
      || 'execute function ${s}.refuse_truncate()', part.name);
  end loop;
  perform set_config('search_path', path, true);
  return true;
end $function$;
comment on function ${s}.protect(regclass, text) is 'Refuses (LH002) rows written to a table without a guard of their resource in the same transaction. The expression over NEW gives the qualified name and is used for old rows too. Again: replaces the expression.';

create function ${s}.unprotect(protected regclass) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
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
      where p.pronamespace = '${s}'::regnamespace and p.proname like 'protect\\_%' and p.prorettype = 'trigger'::regtype
        and pg_catalog.pg_has_role(p.proowner, 'USAGE')
        and not exists (select from pg_catalog.pg_trigger t where t.tgfoid = p.oid)
  loop
    execute format('drop function %s', part.name);
  end loop;
  return was_protected;
end $function$;
comment on function ${s}.unprotect(regclass) is 'Takes back protect. False if the table was not protected.';
`;
