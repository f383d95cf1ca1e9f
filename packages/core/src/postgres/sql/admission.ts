/**
 * Who is let in. Every function runs with the rights of its caller, and pins the search_path or looks nothing up in it: to
 * pin it costs a tenth of a guard. plpgsql takes a new snapshot for each statement under READ COMMITTED: the loop relies on it.
 */
export const admission = (s: string): string => `
create function ${s}.check_grant(
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
comment on function ${s}.check_grant(text, bigint, text, integer, integer) is 'Internal. Raises 22023 for what is no name, token, lease id or limit, LH003 for a token more than 24 h ahead of the clock.';

create function ${s}.admission(resource text, token bigint, lease_id text, lock_ms integer) returns boolean
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
    select f.token, f.lease_id into seen_token, seen_lease from ${s}.fence f where f.resource = admission.resource;
    if not found then
      -- First the row, then the horizon. The other way round, a prune could delete the row after the horizon was read and
      -- before the insert, and an old grant would be admitted. Under REPEATABLE READ a horizon that was raised since the
      -- snapshot ends in 40001.
      insert into ${s}.fence (resource, token, lease_id) values (resource, token, lease_id) on conflict do nothing;
      if found then
        select h.token into strict seen_token from ${s}.horizon h for share;
        is_admitted := token > seen_token;
        -- Unknown resources are sealed up to the horizon, so this changes nothing, and needs no right to delete.
        if not is_admitted then
          update ${s}.fence f set token = seen_token, lease_id = null where f.resource = admission.resource;
        end if;
      end if;
    elsif seen_token > token or (seen_token = token and seen_lease is distinct from lease_id) then
      -- Decided without a lock: what is refused must not keep anybody waiting.
      is_admitted := false;
    elsif seen_token = token then
      perform from ${s}.fence f
        where f.resource = admission.resource and f.token = admission.token and f.lease_id = admission.lease_id
        for share;
      if found then is_admitted := true; end if;
    elsif current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
      -- The snapshot may be older than what the previous owner has committed, and would be read under a valid guard.
      raise exception 'leasehold: token % of % was not activated before this % transaction',
        token, resource, upper(current_setting('transaction_isolation'))
        using errcode = 'LH004',
        hint = 'Call ${s}.activate in a READ COMMITTED transaction of its own, then begin this one again.';
    else
      -- Waits for the open transactions of the grants before.
      update ${s}.fence f
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
comment on function ${s}.admission(text, bigint, text, integer) is 'Internal. Admits a grant whose token is higher than the highest, or equal with the same lease_id; false: stale.';

create function ${s}.highest(resource text, out token bigint, out lease_id text) returns record
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  select f.token, f.lease_id into token, lease_id from ${s}.fence f where f.resource = highest.resource;
  if not found then select nullif(h.token, 0) into token from ${s}.horizon h; end if;
end $function$;
comment on function ${s}.highest(text) is 'The highest token admitted, or sealed (lease_id null). Nulls: none yet.';

create function ${s}.refuse(resource text, token bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  high_token bigint;
  high_lease text;
begin
  select h.token, h.lease_id into high_token, high_lease from ${s}.highest(resource) h;
  raise exception using errcode = 'LH001',
    message = format('leasehold: token %s of %s is stale, %s was admitted', token, resource, high_token),
    detail = json_build_object('resource', resource, 'fencingToken', token,
      'highest', json_build_object('fencingToken', high_token, 'leaseId', high_lease))::text,
    hint = 'A later owner has begun, or this resource was sealed. Roll back and stop this run.';
end $function$;
comment on function ${s}.refuse(text, bigint) is 'Internal. Raises LH001.';

create function ${s}.limits(resource text, token bigint, lease_id text, idle_ms integer, lock_ms integer) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  idle_before constant text := current_setting('idle_in_transaction_session_timeout');
  server constant text := version();
  done text := '';
begin
  perform ${s}.check_grant(resource, token, lease_id, idle_ms, lock_ms);
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
comment on function ${s}.limits(text, bigint, text, integer, integer) is 'Internal. Checks a grant and its limits, and lowers those of this transaction.';

create function ${s}.marks(resource text) returns text language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  mine constant text := pg_current_xact_id()::text || ' ';
  mark constant text := encode(convert_to(resource, 'UTF8'), 'hex') || ' ';
  marks constant text := coalesce(current_setting('${settingOf(s)}.guarded', true), '');
begin
  return case
    when not starts_with(marks, mine) then mine || mark
    when position(' ' || mark in marks) = 0 then marks || mark
    else marks
  end;
end $function$;
comment on function ${s}.marks(text) is 'Internal. What this transaction is guarded for, and this resource: its number and the names, in hex.';

create function ${s}.guard(
  resource text, token bigint, lease_id text, idle_ms integer default 5000, lock_ms integer default 6000
) returns boolean language plpgsql as $function$
${entering(s, 'guard', { answer: `(${settled(s)}) is not null`, stale: `perform ${s}.refuse(resource, token);` })}
end $function$;
comment on function ${s}.guard(text, bigint, text, integer, integer) is 'First statement of a transaction that writes for a lease. Raises LH001 if the grant is stale; else no later grant is admitted before this transaction ends. idle_ms: how long the transaction may stand still. lock_ms: how long to wait for transactions of earlier owners.';

create function ${s}.guard_write(
  resource text, token bigint, lease_id text, idle_ms integer, lock_ms integer
) returns text language plpgsql as $function$
${entering(s, 'guard_write', {
  answer: `${settled(s)} operator(pg_catalog.||) '|' operator(pg_catalog.||) case
      when coalesce(pg_catalog.current_setting('${settingOf(s)}.place', true), '') operator(pg_catalog.<>) ''
      then pg_catalog.current_setting('${settingOf(s)}.place')
      else coalesce(${s}.place_of_session(), '')
    end`,
  stale: `perform ${s}.refuse(resource, token);`,
})}
end $function$;
comment on function ${s}.guard_write(text, bigint, text, integer, integer) is 'Internal. As guard, but its answer has the name of the transaction, which outcome asks for: begins with the xid, and has the place behind a bar.';

create function ${s}.admit(
  resource text, token bigint, lease_id text, idle_ms integer default 5000, lock_ms integer default 6000
) returns boolean language plpgsql as $function$
${entering(s, 'admit', { answer: `(${settled(s)}) is not null`, stale: 'return false;' })}
end $function$;
comment on function ${s}.admit(text, bigint, text, integer, integer) is 'As guard, but false instead of LH001: then roll back.';

create function ${s}.activate(
  resource text, token bigint, lease_id text, lock_ms integer default 6000
) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  perform ${s}.check_grant(resource, token, lease_id, 1, lock_ms);
  if not ${s}.admission(resource, token, lease_id, lock_ms) then
    perform ${s}.refuse(resource, token);
  end if;
  return true;
end $function$;
comment on function ${s}.activate(text, bigint, text, integer) is 'First, empty operation of a grant, in a transaction of its own, before anything is read. Raises LH001 if it is stale.';

create function ${s}.seal(resource text, token bigint, lock_ms integer default 6000) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  lock_before text := current_setting('lock_timeout');
  seen_token bigint;
begin
  perform ${s}.check_grant(resource, token, 'nobody', 1, lock_ms);
  if lock_before = '0' or lock_before::interval > make_interval(secs => lock_ms / 1000.0) then
    perform set_config('lock_timeout', lock_ms::text, true);
  end if;
  for round in 1 .. 1000 loop
    update ${s}.fence f set token = seal.token, lease_id = null, changed_at = clock_timestamp()
      where f.resource = seal.resource and f.token <= seal.token;
    exit when found;
    perform from ${s}.fence f where f.resource = seal.resource and f.token > seal.token;
    exit when found;
    insert into ${s}.fence (resource, token) values (resource, token) on conflict do nothing;
    if found then
      select h.token into strict seen_token from ${s}.horizon h for share;
      -- Unknown resources are sealed up to the horizon already: a lower row would open them.
      if token < seen_token then
        update ${s}.fence f set token = seen_token where f.resource = seal.resource;
      end if;
      exit;
    end if;
  end loop;
  perform set_config('lock_timeout', lock_before, true);
  return true;
end $function$;
comment on function ${s}.seal(text, bigint, integer) is 'Makes every grant up to this token stale, and admits nobody. Waits for open transactions. Never lowers.';
`;

/**
 * The body of `guard`, `guard_write` and `admit`, which differ in what they answer. It is in the way of every write, and what
 * it costs is how much of it there is, for plpgsql makes each statement and each expression ready anew in each transaction:
 * it is one look at the row, and one expression. What is not for the usual case is in functions of its own.
 */
const entering = (s: string, name: string, { answer, stale }: { answer: string; stale: string }): string => `begin
  -- The usual case: this very grant, which was looked at when it was admitted. FOR SHARE lets the transactions of one grant
  -- run side by side, and makes a newer grant wait for them. Nothing is waited for here: a row that is being changed is
  -- looked at again, with a limit.
  perform from ${s}.fence f
    where f.resource operator(pg_catalog.=) ${name}.resource and f.token operator(pg_catalog.=) ${name}.token
      and f.lease_id operator(pg_catalog.=) ${name}.lease_id
    for share skip locked;
  if not found then
    perform ${s}.limits(resource, token, lease_id, idle_ms, lock_ms);
    if not ${s}.admission(resource, token, lease_id, lock_ms) then
      ${stale}
    end if;
  end if;
  return ${answer};`;

/**
 * Sets marks and limits of a transaction. A text that begins with its number. Marks are for protected tables: bytes in hex, so
 * that no name can stand for two, and a savepoint that is rolled back takes them along.
 */
const settled = (s: string): string => `pg_catalog.set_config('${settingOf(s)}.guarded', case
      when coalesce(pg_catalog.current_setting('${settingOf(s)}.guarded', true), '') operator(pg_catalog.=) ''
      then pg_catalog.pg_current_xact_id()::pg_catalog.text operator(pg_catalog.||) ' '
        operator(pg_catalog.||) pg_catalog.encode(pg_catalog.convert_to(resource, 'UTF8'), 'hex') operator(pg_catalog.||) ' '
      else ${s}.marks(resource)
    end, true) operator(pg_catalog.||) case
      when pg_catalog.current_setting('idle_in_transaction_session_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.current_setting('tcp_user_timeout') operator(pg_catalog.=) '0'
        and pg_catalog.version() operator(pg_catalog.~~) '%linux%' and pg_catalog.version() operator(pg_catalog.!~~) '%emcc%'
        and idle_ms operator(pg_catalog.>) 0 and lock_ms operator(pg_catalog.>) 0
      then pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms::pg_catalog.text, true)
        operator(pg_catalog.||) pg_catalog.set_config('tcp_user_timeout', idle_ms::pg_catalog.text, true)
      else ${s}.limits(resource, token, lease_id, idle_ms, lock_ms)
    end`;

/** The prefix of our settings: a name of two parts, where quotes are not written. */
export const settingOf = (s: string): string => s.replaceAll('"', '');
