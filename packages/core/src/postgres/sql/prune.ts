/** Forgetting. A row that is merely deleted would let in every old grant of its resource. */
export const prune = (s: string): string => `
create function ${s}.prune(older_than interval) returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $function$
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
  perform from ${s}.horizon for update;
  with old as (
    select f.resource from ${s}.fence f where f.changed_at < clock_timestamp() - older_than for update skip locked
  ), gone as (
    delete from ${s}.fence f using old where f.resource = old.resource returning f.token
  )
  select count(*), max(gone.token) into deleted, highest_deleted from gone;
  update ${s}.horizon set token = greatest(token, highest_deleted) where highest_deleted is not null;
  return deleted;
end $function$;
comment on function ${s}.prune(interval) is 'Deletes rows whose grant is older, and raises the horizon to the highest token deleted. Give more than any lease is held. Returns how many.';
`;
