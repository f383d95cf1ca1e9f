import { settingOf } from './admission.ts';

/**
 * Whether a transaction was committed, asked on another connection. An xid is a transaction's own name only in one life of
 * the server: what a crash took before it was on disk frees its xid, and the next transaction gets the same one. `place`
 * tells lives apart: by the timeline, and by when the statistics were reset, which is what a recovery does. Before PostgreSQL
 * 15 the statistics cost too much to ask; there it is the last checkpoint, which recovery ends with before anybody gets an
 * xid, so that any checkpoint in between leaves the outcome unknown.
 *
 * "aborted" holds across lives: an xid that was committed is never given again on the same system and timeline.
 */
export const outcome = (s: string): string => `
create function ${s}.system() returns text language plpgsql as $function$
begin
  return (select y.system_identifier from pg_catalog.pg_control_system() y);
exception when others then
  -- Not every hosted PostgreSQL permits this.
  return null;
end $function$;
comment on function ${s}.system() is 'Internal. The identifier of this database system; null where that is not permitted.';

create function ${s}.place() returns text language plpgsql as $function$
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
comment on function ${s}.place() is 'Internal. In which life of which server a transaction is; null where that cannot be told.';

create function ${s}.place_of_session() returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  place constant text := ${s}.place();
begin
  -- No session outlives its server, and none has written before its server was a primary. Before PostgreSQL 15 the place
  -- changes with each checkpoint.
  if place is not null and current_setting('server_version_num')::integer >= 150000 then
    perform set_config('${settingOf(s)}.place', place, false);
  end if;
  return place;
end $function$;
comment on function ${s}.place_of_session() is 'Internal. place(), remembered in a setting of the session where it holds for as long as the session does.';

create procedure ${s}.ending(xid text) language plpgsql as $procedure$
begin
  if coalesce(pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text operator(pg_catalog.=) xid, false) then
    return;
  end if;
  raise exception 'leasehold: this is not the transaction of the guard' using errcode = 'LH005',
    hint = 'Leave BEGIN, COMMIT and ROLLBACK to the fence.';
end $procedure$;
comment on procedure ${s}.ending(text) is 'Internal. Sent before COMMIT: raises LH005 if the body has ended the transaction that the guard was in.';

create function ${s}.outcome(xid text, place text, system text default null) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  -- Before the status: what changes later cannot have made it wrong.
  place_now constant text := ${s}.place();
  is_same constant boolean := coalesce(place = place_now and place <> '', false);
  status text;
begin
  -- A standby shares its life with the primary, and may not have heard of the commit yet.
  if pg_is_in_recovery() then return 'unknown'; end if;
  if not is_same and (
    split_part(place, ' ', 1) is distinct from split_part(place_now, ' ', 1)
    or coalesce(nullif(split_part(place, ' ', 3), ''), system, '') is distinct from ${s}.system()
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
comment on function ${s}.outcome(text, text, text) is 'committed, aborted, in progress or unknown, for pg_current_xact_id(), place() and system() of that transaction.';
`;
