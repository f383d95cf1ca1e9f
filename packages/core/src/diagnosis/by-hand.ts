import type { LeaseInfo } from '../lease/info.ts';
import type { OwnerFinding } from './probe.ts';
import { quote } from './probes/by-hand.ts';

/** A command with which a person checks the same, and what to look for in it. */
export interface ByHand {
  readonly command: string;
  readonly lookFor: string;
}

/** Reads only. `$REDIS_URL` stands for the address, so that no password is in it. */
export function byHandOf(key: string, info: LeaseInfo | null, owner: OwnerFinding): readonly ByHand[] {
  const redis = (rest: string): string => `redis-cli -u "$REDIS_URL" ${rest}`;
  const instance = instanceOf(info);
  const store: ByHand[] =
    key === ''
      ? []
      : [
          {
            command: redis(
              `HMGET ${quote(key)} owner fencing_token lease_id expires_us extended_us extensions revoked`,
            ),
            lookFor: 'an empty owner is free; times are µs since 1970 by the clock of the next line',
          },
          { command: redis('TIME'), lookFor: 'seconds, then µs' },
          {
            command: redis(`PTTL ${quote(key)}`),
            lookFor: 'how long the record is remembered, not the lease; -1 while somebody owns it',
          },
          { command: redis('ROLE'), lookFor: 'master' },
          { command: redis('INFO replication'), lookFor: 'role, connected_slaves, lag' },
          {
            command: redis(`CLIENT LIST${instance === '' ? '' : ` | grep -F ${quote(`leasehold:${instance}`)}`}`),
            lookFor: "the owner's connections: age and idle",
          },
        ];
  const process = owner.byHand.map((command) => ({ command, lookFor: 'on the host of the owner' }));
  return [...store, ...process, { command: 'chronyc tracking', lookFor: 'System time, Last offset; on both hosts' }];
}

/** As we write it. Anything else in a record is not for a shell. */
function instanceOf(info: LeaseInfo | null): string {
  const instance: unknown = info?.identity?.instance;
  return typeof instance === 'string' && /^[\w-]{1,64}$/.test(instance) ? instance : '';
}
