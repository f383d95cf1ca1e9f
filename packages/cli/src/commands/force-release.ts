import type { Fence } from '@leasehold/core';
import type { ForceReleaseOptions, ForceReleaseResult, ReleasePlan } from '@leasehold/core/diagnosis';
import type { Command } from 'commander';
import { describeTarget } from '../connection.ts';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import type { Output } from '../output/output.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { withFences } from './fences.ts';
import { operatorLine } from './operator.ts';
import { withLeases, type Connected, type Session } from './session.ts';
import { onSignals } from './signals.ts';

interface ForceReleaseFlags {
  readonly leaseId: string;
  readonly reason: string;
  readonly acceptDoubleExecution?: string;
  readonly yes?: boolean;
}

export function addForceRelease(program: Command, session: Session): Command {
  return program
    .command('force-release')
    .summary('break glass: release a lease whose owner is gone, its fences sealed first')
    .description(
      "Releases somebody else's lease: only if it ran out beyond a margin on two clocks, its owner is gone or cannot be seen, and a fence of the config (--config) will refuse a late write; the fences are sealed first, and the lease is compared before it is freed. Otherwise it says what is missing and ends with 3. Try stop first.",
    )
    .argument('<resource>', 'its name, as given to the lease')
    .requiredOption('--lease-id <id>', 'whose lease, as diagnose shows it')
    .requiredOption('--reason <text>', "why, such as a ticket; kept in the resource's log")
    .option(
      '--accept-double-execution <resource#token>',
      'without any fence: two owners may act. Never for an owner that is verified alive',
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
  { leases, target, output }: Connected,
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
    onStep: (step) => output.note(`${step} …`, 'quiet'),
    onProgress: ({ forMs, neededMs }) =>
      output.progress(`watching: ${(forMs / 1000).toFixed(0)} of ${(neededMs / 1000).toFixed(0)} s`),
    confirm: async (plan) => {
      for (const line of planLines(plan, describeTarget(target))) output.warn(line);
      if (flags.yes !== true) await confirmByName(session.io, 'It will be released by force.', resource);
      return true;
    },
  };
  const result = await forceRelease(leases, resource, options);
  report(output, result);
  if (result.outcome !== 'released') session.exit = EXIT.no;
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

function report(output: Output, { outcome, sealed, reason, plan }: ForceReleaseResult): void {
  const { resource, leaseId, fencingToken, owner, isUnfenced } = plan;
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
    });
  }
  const seals = sealed.length === 0 ? '' : `; sealed: ${sealed.join(', ')}`;
  if (outcome === 'released') {
    output.line(`released (${resource}, ${owner}, token ${fencingToken}${seals})`);
    if (isUnfenced) output.line('Two owners may act: no fence refuses the writes of the old one.');
    output.note(`Who takes it over: leasehold log ${resource} -f`);
  } else {
    output.line(`not released: the lease has changed meanwhile (${reason ?? outcome}${seals})`);
  }
}
