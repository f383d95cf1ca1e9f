/**
 * Whether a transaction was committed, asked on another connection. An xid is the transaction's own name only while
 * the server has not recovered from a crash: what a crash lost before it was on disk frees its xid, and the next
 * transaction gets the same one. Recovery ends with a checkpoint, always, before anybody gets an xid; so an unchanged
 * checkpoint proves that the xid is ours. "aborted" needs less: an xid that was committed is never given again, on this
 * system and timeline.
 */
export const outcome = (s: string): string => `
create function ${s}.place() returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  return (select format('%s/%s/%s', y.system_identifier, c.timeline_id, c.checkpoint_lsn)
    from pg_control_system() y, pg_control_checkpoint() c);
exception when others then
  -- Not every hosted PostgreSQL permits this. Then nothing can be proved, and the outcome stays unknown.
  return null;
end $function$;
comment on function ${s}.place() is 'Internal. Where an xid is valid: system identifier, timeline, last checkpoint; null where that is not permitted.';

create function ${s}.outcome(xid text, place text) returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  place_now text := ${s}.place();
  status text;
begin
  if xid is null or place is null or place_now is null
    or substring(place from '^[0-9]+/[0-9]+/') <> substring(place_now from '^[0-9]+/[0-9]+/') then
    return 'unknown';
  end if;
  begin
    status := pg_xact_status(xid::xid8);
  exception when invalid_parameter_value then
    -- In the future: a crash has forgotten it.
    status := 'aborted';
  end;
  -- Asked again, after the status: a checkpoint in between tells nothing about before.
  if status = 'committed' and (place <> place_now or place <> coalesce(${s}.place(), '')) then return 'unknown'; end if;
  return coalesce(status, 'unknown');
end $function$;
comment on function ${s}.outcome(text, text) is 'committed, aborted, in progress or unknown, for pg_current_xact_id() and place() of that transaction.';
`;
