import { writeFile } from 'node:fs/promises';
import type { HistoryEntry } from '@leasehold/core';
import type { Command } from 'commander';
import { Option } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { byTime, eventTable } from '../output/events.ts';
import type { Output } from '../output/output.ts';
import { countFlag, instantOf, sinceFlag } from './flags.ts';
import { follow } from './follow.ts';
import { noRecord } from './job-resource.ts';
import { outputOf, withLeases, type Connected, type Session } from './session.ts';

interface LogFlags {
  readonly limit: number;
  readonly follow?: boolean;
  readonly since?: string;
  /** True: to the standard output. */
  readonly svg?: string | true;
}

const ALL = 64;
/** A tenure is seldom shorter, and the log keeps many. */
const FOLLOW_MS = 500;

export function addLog(program: Command, session: Session): Command {
  return program
    .command('log')
    .summary('ownership timeline of one resource, the newest first')
    .description(
      "Shows what has happened to the ownership of one resource, the newest first. Managers keep the exceptional events (expired, lost, revoked, adopted, refused, forced) by default, and all of them with history: 'all'.",
    )
    .argument('<resource>', 'its name, as given to the lease')
    .addOption(new Option('-n, --limit <count>', 'how many events at most').argParser(countFlag).default(ALL))
    .option('-f, --follow', 'the oldest first, and then each event as it happens; with --json one object a line')
    .addOption(new Option('--since <when>', 'only events since then: 1h, or an instant').argParser(sinceFlag))
    .option('--svg [file]', 'as a picture: a row for each owner, a bar for each tenure; without a file to the output')
    .action(async (resource: string, flags: LogFlags, command: Command) => {
      const { svg } = flags;
      if (svg !== undefined && outputOf(session, command).isJson) {
        throw new CliError(EXIT.usage, '--svg and --json contradict each other');
      }
      if (svg !== undefined && flags.follow === true) {
        throw new CliError(EXIT.usage, '--svg and --follow contradict each other');
      }
      const sinceMs = await sinceOf(flags.since);
      await withLeases(session, command, async (connected) => {
        const { leases, target, output } = connected;
        if (flags.follow === true) return followLog(session, connected, resource, { limit: flags.limit, sinceMs });
        const kept = await leases.history(resource, { limit: ALL });
        // A picture is drawn of them as they were written: who took a lease over writes how the one before ended.
        const events = (svg === undefined ? byTime(kept) : kept)
          .slice(0, flags.limit)
          .filter(({ at }) => at.getTime() >= sinceMs);
        if (kept.length === 0 && (await leases.inspect(resource)) === null) {
          throw await noRecord(session, connected, resource);
        }
        if (svg !== undefined) return draw(resource, events, svg, output);
        if (output.isJson) return output.json('log', { namespace: target.prefix, resource, events });
        if (events.length > 0) {
          await eventTable(output, events);
          return tellWhatIsKept(output, resource, kept);
        }
        const when = flags.since === undefined ? '' : ` since ${flags.since}`;
        output.note(`No events of ${resource} are kept${when}: nothing exceptional has happened to it.`);
      });
    });
}

async function sinceOf(since: string | undefined): Promise<number> {
  if (since === undefined) return -Infinity;
  const at = instantOf(since);
  if (!Number.isNaN(at)) return at;
  const { parseDuration } = await import('@leasehold/core');
  return Date.now() - parseDuration('since', since);
}

/** Each event once, the oldest first; those that come later have no head. */
async function followLog(
  session: Session,
  { leases, target, output }: Connected,
  resource: string,
  { limit, sinceMs }: { readonly limit: number; readonly sinceMs: number },
): Promise<void> {
  let told: ReadonlySet<string> | undefined;
  await follow(session, output, FOLLOW_MS, async () => {
    const all = await leases.history(resource, { limit: ALL });
    const before = told;
    const kept = before === undefined ? byTime(all).slice(0, limit) : byTime(all);
    told = new Set(all.map((entry) => JSON.stringify(entry)));
    const fresh = kept
      .filter((entry) => entry.at.getTime() >= sinceMs && before?.has(JSON.stringify(entry)) !== true)
      .toReversed();
    if (!output.isJson) {
      if (fresh.length > 0 || before === undefined) await eventTable(output, fresh, { head: before === undefined });
      if (before !== undefined) return;
      // Of a resource that somebody had something would be kept.
      if (all.length > 0 || (await leases.inspect(resource)) !== null) tellWhatIsKept(output, resource, all);
      return;
    }
    for (const entry of fresh) output.json('event', { namespace: target.prefix, resource, ...entry });
  });
}

/** Who reads the exceptional events alone must not take an owner that came in as usual for none. */
function tellWhatIsKept(output: Output, resource: string, kept: readonly HistoryEntry[]): void {
  if (kept.some(({ event }) => event === 'acquired' || event === 'released')) return;
  output.aside(
    `Only exceptional events of ${resource} are kept (history: exceptions): an owner that comes in as usual is not among them.`,
  );
}

async function draw(
  resource: string,
  events: readonly HistoryEntry[],
  to: string | true,
  output: Output,
): Promise<void> {
  const { timelineSvg } = await import('../output/timeline-svg.ts');
  const picture = timelineSvg(resource, events, new Date());
  if (to === true) return output.text(picture);
  try {
    await writeFile(to, picture);
  } catch (error) {
    throw new CliError(EXIT.usage, `--svg ${to} cannot be written: ${(error as Error).message}`);
  }
  output.note(`${to}: ${events.length === 1 ? '1 event' : `${events.length} events`} of ${resource}`);
}
