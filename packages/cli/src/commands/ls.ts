import type { LeaseInfo } from '@leasehold/core';
import { Option, type Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { sameStore } from '../output/again.ts';
import { LEASE_COLUMNS, leaseCounts, leaseRow } from '../output/lease-table.ts';
import { byTrouble } from '../output/lease.ts';
import type { Output } from '../output/output.ts';
import { quoteWord } from '../output/quote.ts';
import { durationFlag } from './flags.ts';
import { follow } from './follow.ts';
import { matcher } from './pattern.ts';
import { withLeases, type Session } from './session.ts';

/** Oftener would be work for the store and nothing for the reader. */
const LEAST_MS = 100;

interface LsFlags {
  readonly held?: boolean;
  readonly expired?: boolean;
  readonly free?: boolean;
  readonly owner?: string;
  /** True: without an interval of its own. */
  readonly watch?: string | true;
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
    .addOption(
      new Option(
        '-w, --watch [interval]',
        'again each time something changes, asked each 2s; --json: one object a line',
      ).argParser(durationFlag),
    )
    .action(async (pattern: string | undefined, flags: LsFlags, command: Command) => {
      const everyMs = await intervalOf(flags.watch);
      await withLeases(session, command, async ({ leases, target, output, flags: common }) => {
        const isWanted = filterOf(pattern, flags);
        let shown = '';
        const show = async (): Promise<void> => {
          const all: LeaseInfo[] = [];
          for await (const info of leases.list()) all.push(info);
          const found = all.filter(isWanted).toSorted(byTrouble);
          const now = JSON.stringify(found.map(whatMatters));
          if (now === shown) return;
          if (shown !== '' && !output.isJson) output.heading(new Date().toISOString());
          shown = now;
          await tell(output, target.prefix, found, all);
          if (!output.isJson && isUnknown(pattern, all)) {
            output.note(
              `${pattern} has no record: leasehold diagnose ${quoteWord(pattern)}${sameStore(common)} tells whether one was lost.`,
            );
          }
        };
        if (everyMs === undefined) await show();
        else await follow(session, output, everyMs, show);
      });
    });
}

/** One name and no pattern, of which nothing need match. */
function isUnknown(pattern: string | undefined, all: readonly LeaseInfo[]): pattern is string {
  return pattern !== undefined && !/[*?]/.test(pattern) && all.every(({ resource }) => resource !== pattern);
}

async function intervalOf(watch: string | true | undefined): Promise<number | undefined> {
  if (watch === undefined) return undefined;
  const { parseDuration } = await import('@leasehold/core');
  const everyMs = parseDuration('watch', watch === true ? '2s' : watch);
  if (everyMs < LEAST_MS) throw new CliError(EXIT.usage, `--watch ${watch} is less than ${LEAST_MS} ms`);
  return everyMs;
}

/** What a reader wants to hear of: not each extension. */
function whatMatters({ resource, state, leaseId, waiting, revoked }: LeaseInfo): readonly unknown[] {
  return [resource, state, leaseId, waiting, revoked];
}

async function tell(
  output: Output,
  namespace: string,
  found: readonly LeaseInfo[],
  all: readonly LeaseInfo[],
): Promise<void> {
  if (output.isJson) return output.json('leases', { namespace, leases: found });
  if (found.length > 0) await output.table(LEASE_COLUMNS, found.map(leaseRow));
  output.note(summary(found, all));
}

function filterOf(pattern: string | undefined, flags: LsFlags): (info: LeaseInfo) => boolean {
  const isNamed = pattern === undefined ? () => true : matcher(pattern);
  const states = new Set((['held', 'expired', 'free'] as const).filter((state) => flags[state] === true));
  const { owner = '' } = flags;
  return (info) =>
    isNamed(info.resource) && (states.size === 0 || states.has(info.state)) && info.owner.includes(owner);
}

/** Of all that is known, also if little of it was asked for: none that is held is not none that is known. */
function summary(found: readonly LeaseInfo[], all: readonly LeaseInfo[]): string {
  const { held, expired, free } = leaseCounts(all);
  const counts = `${held} held, ${expired} expired, ${free} free`;
  return found.length === all.length ? counts : `${found.length} of ${all.length} shown; in all ${counts}`;
}
