/**
 * Whether a transaction was committed, asked on another connection. An xid is a transaction's own name only as long as the
 * server has not recovered from a crash: what a crash took before it was on disk frees its xid, and the next transaction
 * gets the same one. Two things prove that there was no recovery: an unchanged checkpoint, because recovery ends with one
 * before anybody gets an xid; and, from PostgreSQL 15 on, where it costs nothing, an unchanged reset of the statistics, which
 * recovery discards. "aborted" needs neither: an xid that was committed is never given again on this system and timeline.
 */
export const outcome = (s: string): string => `
create function ${s}.place() returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  return (select format('%s %s %s %s', y.system_identifier, c.timeline_id, c.checkpoint_lsn,
      case when current_setting('server_version_num')::integer >= 150000 then
        extract(epoch from pg_stat_get_bgwriter_stat_reset_time()) end)
    from pg_control_system() y, pg_control_checkpoint() c);
exception when others then
  -- Not every hosted PostgreSQL permits this. Then nothing can be proved, and the outcome stays unknown.
  return null;
end $function$;
comment on function ${s}.place() is 'Internal. Where an xid is valid: system identifier, timeline, last checkpoint, reset of statistics; null where that is not permitted.';

create function ${s}.outcome(xid text, place text) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  -- Before the status: what changes later cannot have made it wrong.
  place_now text := ${s}.place();
  status text;
begin
  if xid is null or coalesce(split_part(place, ' ', 1), '') = ''
    or (split_part(place, ' ', 1), split_part(place, ' ', 2))
      is distinct from (split_part(place_now, ' ', 1), split_part(place_now, ' ', 2)) then
    return 'unknown';
  end if;
  begin
    status := pg_xact_status(xid::xid8);
  exception when invalid_parameter_value then
    -- In the future: a crash has forgotten it.
    return 'aborted';
  end;
  if status = 'committed' and split_part(place, ' ', 3) <> split_part(place_now, ' ', 3)
    and (split_part(place, ' ', 4) = '' or split_part(place, ' ', 4) <> split_part(place_now, ' ', 4)) then
    return 'unknown';
  end if;
  return coalesce(status, 'unknown');
end $function$;
comment on function ${s}.outcome(text, text) is 'committed, aborted, in progress or unknown, for pg_current_xact_id() and place() of that transaction.';
`;
