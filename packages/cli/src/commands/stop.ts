import { setTimeout as sleep } from 'node:timers/promises';
import type { LeaseInfo, LeaseManager } from '@leasehold/core';
import { Option, type Command } from 'commander';
import { describeTarget } from '../connection.ts';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import { sameStore } from '../output/again.ts';
import type { Output } from '../output/output.ts';
import { quoteWord } from '../output/quote.ts';
import { formatDuration, untilOf } from '../output/time.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { durationFlag } from './flags.ts';
import { noRecord } from './job-resource.ts';
import { operatorLine } from './operator.ts';
import { withLeases, type Connected, type Session } from './session.ts';
import { onSignals } from './signals.ts';

interface StopFlags {
  readonly reason?: string;
  readonly timeout: string;
  readonly leaseId?: string;
  readonly yes?: boolean;
}

/** A little more than the default ttl: a lease that is no longer extended is over by then. */
const TIMEOUT = '35s';
const ASK_MS = 100;

/** `released`: its run has ended. The others: it may go on, without the lease or with it. */
type StopOutcome = 'released' | 'expired' | 'replaced' | 'held';

export function addStop(program: Command, session: Session): Command {
  return program
    .command('stop')
    .summary('ask the owner to let go, and wait until it has')
    .description(
      'Asks the owner to end its run: its signal aborts, its lease is no longer extended, and it releases when its work has settled. Nobody enters before it has released or its lease has run out. An owner that does not obey loses the lease then, but its process may go on: without a fence it and the next owner both act, so end that process. Exit 0 when it has released (or nobody holds it), 3 if it has not.',
    )
    .argument('<resource>', 'its name, as given to the lease')
    .option('--reason <text>', "why, such as a ticket; kept in the resource's log")
    .option('--lease-id <id>', 'only if this is the owner still')
    .addOption(new Option('--timeout <duration>', 'how long to wait').argParser(durationFlag).default(TIMEOUT))
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action(async (resource: string, flags: StopFlags, command: Command) => {
      const { io } = session;
      checkConfirmable(io, flags.yes === true, command);
      await withLeases(session, command, async (connected) => {
        const { leases, target, output } = connected;
        const info = await leases.inspect(resource);
        if (info === null) throw await noRecord(session, connected, resource);
        if (info.state === 'free') return report(output, { resource, outcome: 'free' }, `${resource} is free already`);
        checkStoppable(info, flags.leaseId, sameStore(connected.flags));
        if (flags.yes !== true) {
          const question = `${describeTarget(target)}\n${resource} is held by ${info.owner}, token ${info.fencingToken}.`;
          for (const line of question.split('\n')) output.warn(line);
          await confirmByName(io, 'It will be asked to end its run.', resource);
        }
        await stop(session, connected, info, flags);
      });
    });
}

function checkStoppable(info: LeaseInfo, leaseId: string | undefined, again: string): void {
  if (info.state === 'expired') {
    throw new CliError(
      EXIT.no,
      `the lease of ${info.resource} has run out already: its run may go on, but there is no lease to give back`,
      `leasehold show ${quoteWord(info.resource)}${again}, and look for ${info.owner}`,
    );
  }
  if (leaseId !== undefined && leaseId !== info.leaseId) {
    throw new CliError(EXIT.no, `${info.resource} has another owner by now: lease ${info.leaseId}, ${info.owner}`);
  }
}

async function stop(
  session: Session,
  { leases, output, flags }: Connected,
  info: LeaseInfo,
  { reason = '', timeout }: StopFlags,
): Promise<void> {
  const again = sameStore(flags);
  const { resource, leaseId, owner, fencingToken } = info;
  const { parseDuration } = await import('@leasehold/core');
  const timeoutMs = parseDuration('timeout', timeout === '0' ? 0 : timeout);
  // Nobody but the owner that was shown: another one may have taken over since.
  const reply = await leases.revoke(resource, { leaseId, reason, operator: operatorLine() });
  if (reply.outcome === 'revoked') {
    const out = formatDuration(reply.remainingMs);
    output.note(
      `${owner} was asked to let go of ${resource}. Its lease is over in ${out} at the latest; its process may go on after that, if it does not obey.`,
    );
  }
  const from = performance.now();
  const interruption = new AbortController();
  using _signals = onSignals((signal) => {
    session.exit = exitOfSignal(signal);
    interruption.abort();
  });
  const { outcome, remainingMs } = await waitForEnd(leases, info, from + timeoutMs, interruption.signal);
  const waitedMs = Math.round(performance.now() - from);
  if (interruption.signal.aborted) {
    output.warn(`No longer waiting. ${owner} stays asked. ${nextOf(info, 'held', remainingMs, again)}`);
    return;
  }
  report(
    output,
    { resource, outcome, owner, leaseId, fencingToken, waitedMs, remainingMs },
    `${OUTCOMES[outcome]} (${resource}, ${owner}, after ${formatDuration(waitedMs)})`,
  );
  if (outcome === 'released') return;
  output.note(nextOf(info, outcome, remainingMs, again));
  session.exit = EXIT.no;
}

/** What to do about an owner that has not let go, and when. */
function nextOf({ resource, owner }: LeaseInfo, outcome: StopOutcome, remainingMs: number, again: string): string {
  const look = `look whether the process of ${owner} has ended (leasehold diagnose ${quoteWord(resource)}${again}), and end it if not: without a fence it and the next owner both act`;
  return outcome === 'held'
    ? `Wait until ${untilOf(Date.now() + remainingMs)}, when its lease is over unless it let go before. Then ${look}.`
    : `Now ${look}.`;
}

const OUTCOMES: Readonly<Record<StopOutcome, string>> = {
  released: 'released: its run has ended',
  expired:
    'ran out without being released: its run may go on, with its fenced writes refused once the next owner has written',
  replaced: 'its record is gone or another owner has it: its run may go on, with its fenced writes refused',
  held: 'still held: its run has not ended yet, and stays asked',
};

async function waitForEnd(
  leases: LeaseManager,
  stopped: LeaseInfo,
  deadline: number,
  signal: AbortSignal,
): Promise<{ readonly outcome: StopOutcome; readonly remainingMs: number }> {
  for (;;) {
    const info = await leases.inspect(stopped.resource);
    if (info === null) return { outcome: 'replaced', remainingMs: 0 };
    const isSame = info.leaseId === stopped.leaseId;
    if (!isSame || info.state === 'free') {
      const { previous } = info;
      const isOurs = previous?.fencingToken === stopped.fencingToken;
      if (!isOurs) return { outcome: 'replaced', remainingMs: 0 };
      return { outcome: previous.reason === 'released' ? 'released' : 'expired', remainingMs: 0 };
    }
    if (info.state === 'expired') return { outcome: 'expired', remainingMs: 0 };
    if (performance.now() >= deadline || signal.aborted) return { outcome: 'held', remainingMs: info.remainingMs };
    await sleep(Math.max(1, Math.min(ASK_MS, deadline - performance.now())), undefined, { signal }).catch(() => {});
  }
}

function report(output: Output, fields: Readonly<Record<string, string | number>>, text: string): void {
  if (output.isJson) output.json('stop', fields);
  else output.line(text);
}
