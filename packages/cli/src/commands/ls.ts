import type { LeaseInfo } from '@leasehold/core';
import type { Command } from 'commander';
import { byTrouble, concern, stateTone, stateWord, tokenText } from '../output/lease.ts';
import type { Cell, Column } from '../output/table.ts';
import { formatDuration } from '../output/time.ts';
import { matcher } from './pattern.ts';
import { withLeases, type Session } from './session.ts';

interface LsFlags {
  readonly held?: boolean;
  readonly expired?: boolean;
  readonly free?: boolean;
  readonly owner?: string;
}

const COLUMNS: readonly Column[] = [
  { title: 'STATE' },
  { title: 'RESOURCE', yields: 'last' },
  { title: 'OWNER', yields: 'first' },
  { title: 'TOKEN', align: 'right' },
  { title: 'LEFT', align: 'right' },
  { title: 'WAIT', align: 'right' },
  { title: 'NOTE', yields: 'first' },
];

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
        if (found.length > 0) await output.table(COLUMNS, found.map(rowOf));
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

function rowOf(info: LeaseInfo): Cell[] {
  const word = stateWord(info);
  return [
    { text: word, tone: stateTone(word) },
    { text: info.resource },
    { text: info.owner === '' ? '-' : info.owner },
    { text: tokenText(info.fencingToken) },
    { text: info.state === 'held' ? formatDuration(info.remainingMs) : '-' },
    { text: String(info.waiting), tone: info.waiting > 0 ? 'warning' : undefined },
    { text: concern(info) || '-' },
  ];
}

function summary(found: readonly LeaseInfo[]): string {
  const count = (state: LeaseInfo['state']): number => found.filter((info) => info.state === state).length;
  return `${count('held')} held, ${count('expired')} expired, ${count('free')} free`;
}
