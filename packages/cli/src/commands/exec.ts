import type { AcquireOptions, Duration, Lease } from '@leasehold/core';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import type { Output } from '../output/output.ts';
import { formatDuration } from '../output/time.ts';
import { ChildCommand, SpawnError } from './child-command.ts';
import { durationFlag, instantOf } from './flags.ts';
import { withLeases, type Connected, type Session } from './session.ts';
import { onSignals } from './signals.ts';

/** Of the time that a revoked lease has left, for the command to end by itself; the rest is for its release. */
const HEADROOM = 0.8;

interface ExecFlags {
  readonly ttl: Duration;
  readonly wait: Duration;
  readonly killAfter: Duration;
  readonly conflictExitCode: number;
  readonly job?: string;
  readonly tick?: Date;
  readonly startingDeadline?: Duration;
  readonly retry?: number;
}

/** What is to be run, and how. */
interface Order {
  readonly resource: string;
  readonly command: readonly string[];
  readonly flags: ExecFlags;
  readonly options: AcquireOptions;
}

export function addExec(program: Command, session: Session): Command {
  return program
    .command('exec')
    .summary('run a command while holding a lease')
    .description(
      'Runs a command under a lease. The command finds its grant in LEASEHOLD_RESOURCE, LEASEHOLD_FENCING_TOKEN and LEASEHOLD_LEASE_ID, for the fences it writes through. If the lease is lost or revoked, the command and all that it has started get SIGTERM, then SIGKILL. Signals are forwarded. The exit code is that of the command (128 + n for signals), or 75 busy, 76 lease lost.',
    )
    .argument('<resource>', 'what must have one owner')
    .argument('<command...>', 'what to run, after --')
    .addOption(new Option('--ttl <duration>', 'duration of the lease').argParser(durationFlag).default('30s'))
    .addOption(
      new Option('--wait <duration>', 'how long to wait for it, or forever').argParser(waitFlag).default('0', 'not'),
    )
    .addOption(
      new Option('--kill-after <duration>', 'from SIGTERM to SIGKILL, once the lease is lost')
        .argParser(durationFlag)
        .default('5s'),
    )
    .addOption(new Option('-E, --conflict-exit-code <code>', 'if it was busy').argParser(codeFlag).default(EXIT.busy))
    .addOption(new Option('--tick <instant>', 'run once for this instant of a schedule, ISO 8601').argParser(tickFlag))
    .option('--job <job>', 'whose tick it is (the resource)')
    .addOption(new Option('--retry <count>', 'how often a tick that failed is run again').argParser(retryFlag))
    .addOption(
      new Option('--starting-deadline <duration>', 'a tick that is older is not run (5m)').argParser(durationFlag),
    )
    .action(async (resource: string, command: string[], flags: ExecFlags, verb: Command) => {
      if (command[0] === '') throw new CliError(EXIT.usage, 'the command is empty; name one after --');
      const options = acquireOptions(resource, flags);
      const order: Order = { resource, command, flags, options };
      await withLeases(session, verb, (connected) => exec(session, connected, order), { ttl: flags.ttl });
    });
}

function waitFlag(text: string): Duration {
  return text === 'forever' ? Infinity : (durationFlag(text) as Duration);
}

function codeFlag(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= 255) return Number(text);
  throw new InvalidArgumentError('Give a whole number, 0 to 255.');
}

function retryFlag(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= 100) return Number(text);
  throw new InvalidArgumentError('Give a whole number, 0 to 100.');
}

function tickFlag(text: string): Date {
  const at = new Date(instantOf(text));
  if (Number.isNaN(at.getTime())) throw new InvalidArgumentError('Give an instant such as 2026-11-30T03:00:00Z.');
  return at;
}

/** The library takes a bare number only as one. */
function milliseconds(duration: string | number): Duration {
  return duration === '0' ? 0 : (duration as Duration);
}

function acquireOptions(resource: string, flags: ExecFlags): AcquireOptions {
  const wait = milliseconds(flags.wait);
  const { tick, job, retry, startingDeadline } = flags;
  if (tick === undefined) {
    const stray = Object.entries({ '--job': job, '--retry': retry, '--starting-deadline': startingDeadline }).find(
      ([, value]) => value !== undefined,
    );
    if (stray !== undefined) throw new CliError(EXIT.usage, `${stray[0]} goes with --tick, which is missing`);
    return { wait };
  }
  return {
    wait,
    tick: {
      job: job ?? resource,
      at: tick,
      ...(retry !== undefined && { retry }),
      ...(startingDeadline !== undefined && { startingDeadline: milliseconds(startingDeadline) }),
    },
  };
}

/** The command ended with another code than 0: for its tick a failure. */
class ExitError extends Error {
  readonly exit: number;

  constructor(exit: number) {
    super(`the command ended with ${exit}`);
    this.exit = exit;
  }
}

async function exec(
  session: Session,
  { leases, output }: Connected,
  { resource, command, flags, options }: Order,
): Promise<void> {
  const { LeaseholdError, NotStartedError, parseDuration } = await import('@leasehold/core');
  const killAfterMs = parseDuration('kill-after', milliseconds(flags.killAfter));
  const acquisition = new AbortController();
  let child: ChildCommand | undefined;
  let received: NodeJS.Signals | undefined;
  using _signals = onSignals((signal) => {
    received ??= signal;
    if (child === undefined) acquisition.abort();
    else child.signal(signal);
  });
  using _suspension = refuseSuspension(output);

  try {
    await leases.run(resource, { ...options, signal: acquisition.signal }, async (lease) => {
      if (received !== undefined) throw new NotStartedError(resource, `${received} came first`);
      try {
        child = await ChildCommand.start(command, { ...session.io.env, ...grantIn(lease) });
      } catch (error) {
        throw new NotStartedError(resource, messageOf(error), error);
      }
      output.note(`holding ${resource}, token ${lease.fencingToken}`, 'quiet');
      const code = await endOf(child, lease, killAfterMs, output);
      if (code !== 0) throw new ExitError(code);
    });
  } catch (error) {
    // Before the command's code: a command that was stopped because its lease was lost has one as well.
    if (LeaseholdError.is(error, 'LEASE_LOST')) throw error;
    if (error instanceof ExitError) session.exit = error.exit;
    else if (received !== undefined && child === undefined) session.exit = exitOfSignal(received);
    else throw failureOf(error, flags.conflictExitCode);
  }
}

/** Until the command is over; it is ended if its lease is no longer to be counted on. */
async function endOf(child: ChildCommand, lease: Lease, killAfterMs: number, output: Output): Promise<number> {
  let termination: Promise<void> | undefined;
  function end(): void {
    const isHeld = lease.isHeld();
    // Revoked, the lease is still held for a moment. Nobody enters before it is over, and by then nobody is to be left.
    const graceMs = isHeld ? Math.min(killAfterMs, lease.remainingMs() * HEADROOM) : killAfterMs;
    const what = isHeld ? `was asked to let go of ${lease.resource}` : `has lost ${lease.resource}`;
    const { reason } = lease.signal.reason as { readonly reason: string };
    output.warn(
      `leasehold: ${what} (${reason}); SIGTERM to the command, SIGKILL in ${formatDuration(graceMs)}`,
      isHeld ? 'warning' : 'bad',
    );
    termination = child.terminate(graceMs);
  }
  const { signal } = lease;
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });

  const code = await child.exit;
  signal.removeEventListener('abort', end);
  await termination;
  if (child.isLeft()) {
    output.warn('leasehold: the command has left processes running; they are no longer under the lease', 'warning');
  }
  return code;
}

/** What fences take: the qualified resource, the token and the leaseId. */
function grantIn({ grant }: Lease): Readonly<Record<string, string>> {
  return {
    LEASEHOLD_RESOURCE: grant.resource,
    LEASEHOLD_FENCING_TOKEN: String(grant.fencingToken),
    LEASEHOLD_LEASE_ID: grant.leaseId,
  };
}

/** Busy and what could not be started have exit codes of their own. */
function failureOf(error: unknown, conflictExitCode: number): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error;
  if (error.cause instanceof SpawnError) return new CliError(error.cause.exit, error.cause.message);
  const isConflict = ['RESOURCE_BUSY', 'ACQUIRE_TIMEOUT', 'TICK_REFUSED'].includes(String(error.code));
  return isConflict ? new CliError(conflictExitCode, `not run: ${error.message}`) : error;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function refuseSuspension(output: Output): Disposable {
  const refuse = (): void => output.warn('Not suspended: a lease cannot be extended by a process that is stopped.');
  process.on('SIGTSTP', refuse);
  return { [Symbol.dispose]: () => void process.off('SIGTSTP', refuse) };
}
