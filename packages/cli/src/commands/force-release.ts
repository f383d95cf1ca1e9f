import type { Duration, Fence } from '@leasehold/core';
import type { Aftermath, ForceReleaseOptions, ForceReleaseResult, ReleasePlan } from '@leasehold/core/diagnosis';
import { Option, type Command } from 'commander';
import { describeTarget } from '../connection.ts';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import { sameStore } from '../output/again.ts';
import type { Output } from '../output/output.ts';
import { quoteWord } from '../output/quote.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { withFences } from './fences.ts';
import { durationFlag } from './flags.ts';
import { operatorLine } from './operator.ts';
import { withLeases, type Connected, type Session } from './session.ts';
import { onSignals } from './signals.ts';

interface ForceReleaseFlags {
  readonly leaseId: string;
  readonly reason: string;
  readonly acceptDoubleExecution?: string;
  readonly watch: string;
  readonly yes?: boolean;
}

interface ReleaseFailure {
  readonly code?: string;
  readonly message: string;
  readonly mayHaveRun?: boolean;
}

export function addForceRelease(program: Command, session: Session): Command {
  return program
    .command('force-release')
    .summary('break glass: release a lease whose owner is gone, its fences sealed first')
    .description(
      "Releases somebody else's lease: only if it ran out beyond a margin on two clocks, its owner is gone or cannot be seen, and a fence of the config (--config) will refuse a late write; the fences are sealed first, the old token is tried at each and must be refused, and the lease is compared before it is freed. Then it waits for the next owner, and tries the old token again. Otherwise it says what is missing and ends with 3. Try stop first.",
    )
    .argument('<resource>', 'its name, as given to the lease')
    .requiredOption('--lease-id <id>', 'whose lease, as diagnose shows it')
    .requiredOption('--reason <text>', "why, such as a ticket; kept in the resource's log")
    .option(
      '--accept-double-execution <resource#token>',
      'without any fence: two owners may act. Never for an owner that is verified alive',
    )
    .addOption(
      new Option('--watch <duration>', 'after the release: how long to wait for the next owner, at most 1h')
        .argParser(durationFlag)
        .default('10s'),
    )
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action(async (resource: string, flags: ForceReleaseFlags, command: Command) => {
      checkConfirmable(session.io, flags.yes === true, command);
      await withLeases(session, command, (connected) =>
        withFences(command, session.io, (fences) => release(session, connected, resource, fences, flags)),
      );
    });
}

async function release(
  session: Session,
  { leases, target, output, flags: common }: Connected,
  resource: string,
  fences: readonly Fence[],
  flags: ForceReleaseFlags,
): Promise<void> {
  const { forceRelease } = await import('@leasehold/core/diagnosis');
  const end = new AbortController();
  using _signals = onSignals((signal) => {
    session.exit = exitOfSignal(signal);
    end.abort(new CliError(exitOfSignal(signal), `${signal}: nothing was released`));
  });
  const options: ForceReleaseOptions = {
    fences,
    leaseId: flags.leaseId,
    reason: flags.reason,
    operator: operatorLine(),
    acceptDoubleExecution: flags.acceptDoubleExecution,
    signal: end.signal,
    watchSuccessor: flags.watch === '0' ? 0 : (flags.watch as Duration),
    onStep: (step) => output.note(`${step} …`, 'quiet'),
    onProgress: ({ forMs, neededMs }) =>
      output.progress(`watching: ${(forMs / 1000).toFixed(0)} of ${(neededMs / 1000).toFixed(0)} s`),
    confirm: async (plan) => {
      for (const line of planLines(plan, describeTarget(target))) output.warn(line);
      if (flags.yes !== true) await confirmByName(session.io, 'It will be released by force.', resource, end.signal);
      return true;
    },
  };
  let sealed: readonly string[] = [];
  leases.on('forceReleased', (event) => (sealed = event.sealed));
  const result = await forceRelease(leases, resource, options).catch((error: unknown) => {
    // Ended by hand once fences were sealed: that is how it ended, and what was sealed is in the message.
    const { code, message, mayHaveRun } = error as ReleaseFailure;
    if (mayHaveRun === true) {
      const look = `leasehold log ${quoteWord(resource)}${sameStore(common)}`;
      output.warn(
        `It may have been released: the reply was lost. Once the store answers, ${look} has FORCED if it was.`,
      );
    }
    if (code !== 'UNSAFE_RELEASE' && sealed.length > 0) output.warn(`Sealed, and it stays so: ${sealed.join(', ')}.`);
    throw end.signal.aborted && code === 'UNSAFE_RELEASE' ? new CliError(session.exit, message) : error;
  });
  report(output, result, flags.watch, sameStore(common));
  // Also if it was ended while it watched: what it was asked for is done.
  session.exit = result.outcome === 'released' ? EXIT.done : EXIT.no;
}

function planLines(plan: ReleasePlan, target: string): readonly string[] {
  const { resource, owner, fencingToken, seals, sealToken, isUnfenced, diagnosis } = plan;
  return [
    target,
    diagnosis.verdict.sentence,
    `${resource}: token ${fencingToken}, owner ${owner}`,
    isUnfenced
      ? 'NO FENCE: if the owner lives, two owners act from now on.'
      : `Sealed first, at ${sealToken}: ${seals.join(', ')}. Its writes are refused from then on.`,
  ];
}

function report(output: Output, result: ForceReleaseResult, watched: string, again: string): void {
  const { outcome, sealed, evidence, isLogged, reason, plan, aftermath } = result;
  const { resource, leaseId, fencingToken, owner, isUnfenced } = plan;
  if (!isLogged)
    output.warn('not seen in the log of the resource: the store does not answer, or something else lies there');
  if (output.isJson) {
    return output.json('force-release', {
      resource,
      outcome,
      reason,
      leaseId,
      fencingToken,
      owner,
      sealed,
      isUnfenced,
      evidence,
      isLogged,
      aftermath,
    });
  }
  const seals = sealed.length === 0 ? '' : `; sealed: ${sealed.join(', ')}`;
  if (outcome === 'released') {
    output.line(`released (${resource}, ${owner}, token ${fencingToken}${seals})`);
    if (isUnfenced) output.line('Two owners may act: no fence refuses the writes of the old one.');
    if (aftermath !== null) for (const line of aftermathLines(aftermath, watched)) output.line(line);
    if ((aftermath?.successor ?? null) === null) {
      output.note(`Who takes it over: leasehold ls ${quoteWord(resource)} --watch${again}`);
    }
  } else {
    output.line(`not released: the lease has changed meanwhile (${reason ?? outcome}${seals})`);
  }
}

function aftermathLines(
  { successor, refusedBy, notRefusedBy, storeAnswered }: Aftermath,
  watched: string,
): readonly string[] {
  const lines: string[] = [];
  if (refusedBy.length > 0) lines.push(`The old token was tried again, and refused by ${refusedBy.join(', ')}.`);
  if (notRefusedBy.length > 0)
    lines.push(
      `The old token was NOT refused by ${notRefusedBy.join(', ')}, which admitted it or did not answer: look there.`,
    );
  if (!storeAnswered) return [...lines, 'Whether anybody has acquired it is not known: the store does not answer.'];
  if (successor === null) return [...lines, `Nobody has acquired it yet; it was watched for ${watched} at most.`];
  const { owner, fencingToken, afterMs } = successor;
  return [
    ...lines,
    `The next owner is ${owner}, token ${fencingToken}, ${(afterMs / 1000).toFixed(1)} s after the release.`,
  ];
}
