import type { Fence, LeaseInfo } from '@leasehold/core';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { describeTarget } from '../connection.ts';
import { CliError, EXIT } from '../exit.ts';
import { tokenText } from '../output/lease.ts';
import { formatDuration } from '../output/time.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { schemaOption } from './fence-database.ts';
import { noRecord } from './job-resource.ts';
import { operatorLine } from './operator.ts';
import { checkOneFence, withFence, type FenceFlags, type NamedFence } from './seal-fence.ts';
import { withLeases, type Connected, type Session } from './session.ts';

interface SealFlags extends FenceFlags {
  readonly token?: number;
  readonly reason: string;
  readonly yes?: boolean;
}

type Highest = Awaited<ReturnType<Fence['highest']>>;

/** What is to be done, and to whom. */
interface Plan {
  readonly resource: string;
  readonly qualified: string;
  readonly token: number;
  readonly before: Highest;
  /** Null: the store knows nobody; undefined: it does not answer. */
  readonly info: LeaseInfo | null | undefined;
}

export function addSeal(program: Command, session: Session): Command {
  return program
    .command('seal')
    .summary('raise a fence, so that no owner up to now can write')
    .description(
      'Raises a fence to the last token of the resource + 1: its owner, and everybody before, is refused at the next fenced write; the next owner gets in. The lease itself stays as it is (stop and force-release are for that). It cannot be undone, and shuts out nobody for good. What the fence does not guard is not stopped by it. It shows the plan, and asks; without a terminal and without --yes it only shows it; the fence refuses a token more than 24 h ahead (exit 3).',
    )
    .argument('<resource>', 'its name, as given to the lease')
    .option('--fence <name>', 'a fence of the config')
    .option('--database <url>', 'the fence in this database, postgres://host:port/db')
    .addOption(schemaOption())
    .option('--redis-fence <url>', 'the fence in this Redis, redis://host:port/db')
    .addOption(
      new Option('--token <n>', 'every grant up to it is refused (last token + 1); needs no store').argParser(
        tokenFlag,
      ),
    )
    .requiredOption('--reason <text>', "why, such as a ticket; kept in the resource's log")
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action(async (resource: string, flags: SealFlags, command: Command) => {
      checkOneFence(flags);
      if (flags.reason.trim() === '') throw new CliError(EXIT.usage, '--reason is empty: say why, such as a ticket');
      await withLeases(session, command, (connected) =>
        withFence(flags, command, session.io, (named) =>
          seal(session, connected, named, resource, flags, () =>
            checkConfirmable(session.io, flags.yes === true, command),
          ),
        ),
      );
    });
}

function tokenFlag(text: string): number {
  const token = Number(text);
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(token) && token >= 1) return token;
  throw new InvalidArgumentError('Give a fencing token, a whole number above 0, such as 1795987422001234.');
}

async function seal(
  session: Session,
  connected: Connected,
  { fence, label }: NamedFence,
  resource: string,
  { token: given, reason, yes }: SealFlags,
  check: () => void,
): Promise<void> {
  const { leases, target, output } = connected;
  const qualified = `${target.prefix}/${resource}`;
  const info = await infoOf(leases, resource, given !== undefined);
  const token = given ?? (info?.fencingToken || 0) + 1;
  if (given === undefined && token === 1) throw await noRecord(session, connected, resource);
  const before = await answer(label, () => fence.highest(qualified));
  const plan: Plan = { resource, qualified, token, before, info };
  for (const line of [describeTarget(target), ...planLines(plan, label)]) output.warn(line);
  const isShut = isShutAlready(before, token);
  if (!isShut) {
    // Not before the plan: to look at it does no harm, also where there is no terminal.
    check();
    if (yes !== true) await confirmByName(session.io, 'It cannot be undone.', resource);
    const { seal: sealFences } = await import('@leasehold/core/diagnosis');
    await answer(label, async () => {
      const options = { fences: [fence], fencingToken: token, reason, operator: operatorLine() };
      const { failure, isLogged } = await sealFences(leases, resource, options);
      if (failure !== null) throw failure.error;
      if (!isLogged)
        output.warn('not kept in the log of the resource: the store does not answer, or something else lies there');
    });
  }
  // Whoever was admitted meanwhile stands above the seal.
  const after = isShut ? before : await answer(label, () => fence.highest(qualified));
  const isOurs = after?.fencingToken === token && after.leaseId === null;
  const outcome = isShut ? 'unchanged' : isOurs ? 'sealed' : 'passed';
  const at = new Date().toISOString();
  if (output.isJson) {
    const who = { operator: operatorLine(), reason };
    const what = { resource, qualified, fence: fence.name, outcome, token, before, after };
    return output.json('seal', { ...what, at, ...who });
  }
  const where = `${qualified}, at ${fence.name}, highest ${after?.fencingToken ?? '-'}`;
  output.line(`${RESULTS[outcome]} (${where}, ${at}: ${reason})`);
}

const RESULTS = {
  sealed: 'sealed: every grant up to it is refused',
  unchanged: 'unchanged: every grant up to that token was refused already',
  passed:
    'a later owner was admitted meanwhile, or another seal set: every grant up to the token is refused, that one is not',
} as const;

/** A seal below the highest changes nothing; one that equals it shuts out the grant that has this number. */
function isShutAlready(highest: Highest, token: number): boolean {
  if (highest === null) return false;
  return highest.fencingToken > token || (highest.fencingToken === token && highest.leaseId === null);
}

/** With a token the store is not needed, and may be the very thing that is broken. */
async function infoOf(
  leases: Connected['leases'],
  resource: string,
  isDispensable: boolean,
): Promise<LeaseInfo | null | undefined> {
  try {
    return await leases.inspect(resource);
  } catch (error) {
    const { code = '' } = error as { readonly code?: string };
    if (isDispensable && code.startsWith('STORE_')) return undefined;
    throw error;
  }
}

/** Of a fence out of reach nothing is known, as of a store. */
async function answer<T>(label: string, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const { code, message } = error as { readonly code?: string; readonly message: string };
    if (code === 'FENCE_UNAVAILABLE')
      throw new CliError(EXIT.unreachable, `${label}: ${message}`, 'the same command again: a seal may be set twice');
    if (code === 'TOKEN_OUT_OF_RANGE') throw new CliError(EXIT.no, `${code}: ${message}; nothing was sealed`);
    throw error;
  }
}

function planLines({ qualified, token, before, info }: Plan, label: string): readonly string[] {
  const lines = [
    `fence    ${label}`,
    `now      ${highestText(before)} for ${qualified}`,
    `after    ${isShutAlready(before, token) ? 'the same: every grant up to' : 'sealed, nobody admitted: every grant up to'} ${token} is refused`,
    `owner    ${ownerText(info, token)}`,
  ];
  const aheadMs = token / 1000 - Date.now();
  if (aheadMs > 0) {
    lines.push(
      `ahead    ${formatDuration(aheadMs)} before this host's clock: the next owner is refused once, and draws a higher token`,
    );
  }
  return lines;
}

function highestText(highest: Highest): string {
  if (highest === null) return 'nobody was ever admitted';
  const { fencingToken, leaseId } = highest;
  return leaseId === null ? `sealed at ${fencingToken}` : `admitted ${fencingToken} (lease ${leaseId})`;
}

function ownerText(info: LeaseInfo | null | undefined, token: number): string {
  if (info === undefined) return 'not known: the store does not answer';
  if (info === null) return 'the store knows nobody';
  const { state, fencingToken, owner } = info;
  const last = tokenText(fencingToken);
  if (state === 'free') return `nobody; the last one had token ${last}, and its late writes are refused`;
  if (fencingToken > token) return `${owner} has token ${last}, above the seal: it goes on`;
  return `${owner} has token ${last}: its writes are refused from then on, and its run ends at the first`;
}
