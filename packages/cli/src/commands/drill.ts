import { access, constants, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Duration } from '@leasehold/core';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Settings } from '../config/settings.ts';
import { describeTarget, openManager, type Target } from '../connection.ts';
import type { ProofResult } from '../drill/drill.ts';
import type { DrillFence } from '../drill/messages.ts';
import { PROOF_NAMES } from '../drill/names.ts';
import { CliError, EXIT, exitOfSignal } from '../exit.ts';
import { drillJson, drillView } from '../output/drill.ts';
import type { Output } from '../output/output.ts';
import { configHere, readConfig } from './config-file.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { countFlag, durationFlag, type CommonFlags } from './flags.ts';
import { withLeases, type Session } from './session.ts';
import { onSignals } from './signals.ts';

interface DrillFlags {
  readonly only?: readonly string[];
  readonly ttl: Duration;
  readonly repeat: number;
  readonly fence?: string;
  readonly fenceModule?: string;
  readonly targetIsStaging?: boolean;
  readonly junit?: string;
  readonly html?: string;
  readonly yes?: boolean;
}

export function addDrill(program: Command, session: Session): Command {
  return program
    .command('drill')
    .summary('rehearse failures of an owner on your own store and fence')
    .description(
      'Starts owner processes on this machine, lets them work on scratch resources of your store, kills, stops, cuts off and robs them, and judges what they, the store and the fence did. It says first what it will do, writes no key but its own (prefix leasehold-drill), which it removes, and refuses a store on which leases are held. The fence is one of the config (--fence), your own (--fence-module), or one that it brings in the store itself. Exit 0 if everything is proven, 1 if a proof failed, 3 if it was refused.',
    )
    .addOption(new Option('--only <proof...>', `some of ${PROOF_NAMES.join(', ')}`).argParser(proofFlag))
    .addOption(
      new Option('--ttl <duration>', 'duration of the leases: try that of your jobs')
        .argParser(durationFlag)
        .default('5s'),
    )
    .addOption(new Option('--repeat <count>', 'how often each is played, 1 to 1000').argParser(repeatFlag).default(1))
    .addOption(new Option('--fence <name>', 'a fence of the config').conflicts('fenceModule'))
    .option('--fence-module <file>', 'a module whose function openFence returns your fence')
    .option('--target-is-staging', 'also on a store on which other leases are held')
    .option('--junit <file>', 'the results as JUnit XML')
    .option('--html <file>', 'the results as one page, with a picture of who owned what when')
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action(async (flags: DrillFlags, command: Command) => {
      if (process.platform === 'win32')
        throw new CliError(EXIT.usage, 'a drill stops processes by signals, which Windows has not');
      checkConfirmable(session.io, flags.yes === true, command);
      await Promise.all([checkWritable('--junit', flags.junit), checkWritable('--html', flags.html)]);
      const settings = await settingsOf(command, session);
      await withLeases(session, command, ({ target, output }) => rehearse(session, target, output, settings, flags));
    });
}

function proofFlag(text: string, before: readonly string[] | undefined): readonly string[] {
  const names = text.split(',');
  const wrong = names.find((name) => !PROOF_NAMES.includes(name));
  if (wrong !== undefined) throw new InvalidArgumentError(`Give some of ${PROOF_NAMES.join(', ')}.`);
  return [...(before ?? []), ...names];
}

function repeatFlag(text: string): number {
  const count = countFlag(text);
  if (count > 1000) throw new InvalidArgumentError('Give a whole number, 1 to 1000.');
  return count;
}

/** Before anything is done: a result that nobody can read is none. */
async function checkWritable(flag: string, file: string | undefined): Promise<void> {
  if (file === undefined) return;
  try {
    await access(dirname(file), constants.W_OK);
  } catch (error) {
    throw new CliError(EXIT.usage, `${flag} ${file} cannot be written: ${(error as Error).message}`);
  }
}

async function settingsOf(command: Command, { io }: Session): Promise<Settings | undefined> {
  const flags = command.optsWithGlobals<CommonFlags>();
  const config = flags.config ?? (await configHere(flags, io.env));
  return config === undefined ? undefined : (await readConfig(config, io.env)).config.settings;
}

function fenceOf({ fence, fenceModule }: DrillFlags, target: Target, settings: Settings | undefined): DrillFence {
  if (fenceModule !== undefined) return { kind: 'module', file: fenceModule };
  if (fence === undefined) return { kind: 'scratch', redis: target.redis };
  const its = settings?.fences.get(fence);
  if (its !== undefined) return { kind: 'configured', name: fence, settings: its };
  const names = [...(settings?.fences.keys() ?? [])];
  const known = names.length === 0 ? 'there is no config with fences' : `there are ${names.join(', ')}`;
  throw new CliError(
    EXIT.usage,
    `--fence ${fence} is not in the config: ${known}`,
    'leasehold drill --config leasehold.yaml',
  );
}

async function rehearse(
  session: Session,
  target: Target,
  output: Output,
  settings: Settings | undefined,
  flags: DrillFlags,
): Promise<void> {
  const fence = fenceOf(flags, target, settings);
  const [{ proofs }, { drill }, { withStage }] = await Promise.all([
    import('../drill/proofs.ts'),
    import('../drill/drill.ts'),
    import('../drill/stage.ts'),
  ]);
  const chosen = proofs.filter(({ name }) => flags.only?.includes(name) ?? true);
  const end = new AbortController();
  using _signals = onSignals((signal) => {
    session.exit = exitOfSignal(signal);
    end.abort(new CliError(session.exit, `${signal}: the drill was ended`));
  });
  if (flags.targetIsStaging !== true) await refuseOthers(target);
  const began = new Date();
  const results = await withStage(
    {
      ...{ target, fence, ttl: flags.ttl, timing: settings?.timing ?? {}, signal: end.signal, open: openManager },
      onFault: (resource, nemesis) => {
        if (output.isVerbose) output.note(`${resource}: ${nemesis} begins`, 'quiet');
      },
    },
    async (stage) => {
      for (const line of planLines(target, fence, flags, chosen.length)) output.warn(line);
      if (flags.yes !== true) {
        await confirmByName(session.io, 'Owner processes will be started and killed.', 'drill', end.signal);
      }
      const all = chosen.length * flags.repeat;
      let over = 0;
      return drill(stage, {
        proofs: chosen,
        repeat: flags.repeat,
        onRun: ({ proof, isProven, failures, tookMs }) => {
          over++;
          const line = `${over} of ${all}: ${proof.name} ${isProven ? 'proven' : 'FAILED'} (${(tookMs / 1000).toFixed(1)} s)`;
          if (!isProven) output.note(`${line}: ${firstLine(failures[0])}`, 'bad');
          else if (flags.repeat > 1) output.progress(line);
          else output.note(line, 'quiet');
        },
      });
    },
    (left) => output.warn(`Not removed from the store: ${left.join(', ')}`, 'bad'),
  );
  await report(
    output,
    results,
    { target: describeTarget({ ...target, prefix: 'leasehold-drill' }), fence: nameOf(fence), ttl: flags.ttl, began },
    flags,
  );
  session.exit = results.some(({ verdict }) => verdict === 'failed') ? EXIT.unexpected : EXIT.done;
}

function firstLine(text = ''): string {
  return text.split('\n').slice(0, 2).join(': ');
}

/** Throws `CliError`, exit 3, if somebody works there. */
async function refuseOthers(target: Target): Promise<void> {
  const [{ heldByOthers }, { StoreUnavailableError }] = await Promise.all([
    import('../drill/others.ts'),
    import('@leasehold/core'),
  ]);
  const others = await heldByOthers(target.redis).catch((error: unknown) => {
    throw new StoreUnavailableError(`cannot be asked whether leases are held: ${(error as Error).message}`, {
      mayHaveRun: false,
      cause: error,
    });
  });
  if (others.length === 0) return;
  const named = others.map(({ key, owner }) => `${key} by ${owner}`).join('; ');
  throw new CliError(
    EXIT.no,
    `refused: leases are held on this store (${named}). A drill belongs on a store on which nobody works`,
    'the same with --target-is-staging, if that is what it is',
  );
}

function nameOf(fence: DrillFence): string {
  if (fence.kind === 'scratch') return 'a Redis fence of the drill itself';
  return fence.kind === 'module' ? `that of ${fence.file}` : `${fence.name} (${fence.settings.kind})`;
}

function planLines(target: Target, fence: DrillFence, { ttl, repeat }: DrillFlags, count: number): readonly string[] {
  const times = repeat === 1 ? 'once' : `${repeat} times`;
  return [
    describeTarget({ ...target, prefix: 'leasehold-drill' }),
    `Plays ${count} ${count === 1 ? 'failure' : 'failures'}, ${times} each, with leases of ${ttl}, on scratch resources that are removed afterwards.`,
    `Starts two owner processes on this machine for each, and kills, stops or blocks only these. Fence: ${nameOf(fence)}.`,
    'No other key of the store is written, and nothing of the server is changed.',
  ];
}

async function report(
  output: Output,
  results: readonly ProofResult[],
  about: { readonly target: string; readonly fence: string; readonly ttl: Duration; readonly began: Date },
  { junit, html }: DrillFlags,
): Promise<void> {
  if (junit !== undefined) {
    const { drillJunit } = await import('../output/drill-junit.ts');
    await writeFile(junit, drillJunit(results, about));
  }
  if (html !== undefined) {
    const { drillPage } = await import('../output/drill-page.ts');
    await writeFile(html, drillPage(results, about));
  }
  if (output.isJson) return output.json('drill', drillJson(results, about));
  await drillView(output, results);
}
