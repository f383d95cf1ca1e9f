import type { LeaseInfo } from '@leasehold/core';
import type { Command } from 'commander';
import { LEASE_COLUMNS, leaseCounts, leaseRow } from '../output/lease-table.ts';
import { byTrouble } from '../output/lease.ts';
import { matcher } from './pattern.ts';
import { withLeases, type Session } from './session.ts';

interface LsFlags {
  readonly held?: boolean;
  readonly expired?: boolean;
  readonly free?: boolean;
  readonly owner?: string;
}

export function addLs(program: Command, session: Session): Command {
  return program
    .command('ls')
    .summary('who owns what: owner, token, time left, waiters')
    .description(
      'Lists the resources of the namespace, the most trouble first: leases that ran out, owners that have missed an extension, owners that were asked to let go, then the rest.',
    )
    .argument('[pattern]', "names to list, with * and ?; quote it: 'customer:*'")
    .option('--held', 'only what somebody holds')
    .option('--expired', 'only leases that ran out and that nobody has taken')
    .option('--free', 'only what nobody holds')
    .option('--owner <text>', "only owners whose line contains the text, such as 'web-7f9c' or 'pid 41'")
    .action(async (pattern: string | undefined, flags: LsFlags, command: Command) => {
      await withLeases(session, command, async ({ leases, target, output }) => {
        const isWanted = filterOf(pattern, flags);
        const found: LeaseInfo[] = [];
        for await (const info of leases.list()) if (isWanted(info)) found.push(info);
        found.sort(byTrouble);
        if (output.isJson) return output.json('leases', { namespace: target.prefix, leases: found });
        if (found.length > 0) await output.table(LEASE_COLUMNS, found.map(leaseRow));
        output.note(summary(found));
      });
    });
}

function filterOf(pattern: string | undefined, flags: LsFlags): (info: LeaseInfo) => boolean {
  const isNamed = pattern === undefined ? () => true : matcher(pattern);
  const states = new Set((['held', 'expired', 'free'] as const).filter((state) => flags[state] === true));
  const { owner = '' } = flags;
  return (info) =>
    isNamed(info.resource) && (states.size === 0 || states.has(info.state)) && info.owner.includes(owner);
}

function summary(found: readonly LeaseInfo[]): string {
  const { held, expired, free } = leaseCounts(found);
  return `${held} held, ${expired} expired, ${free} free`;
}
