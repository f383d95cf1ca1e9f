import { type Argument, Command, CommanderError, Help } from 'commander';
import { addCompletion } from './commands/completion.ts';
import { addDiagnose } from './commands/diagnose.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEvidence } from './commands/evidence.ts';
import { addDrill } from './commands/drill.ts';
import { addExec } from './commands/exec.ts';
import { addFence } from './commands/fence.ts';
import { withConnectionFlags, withOutputFlags, type CommonFlags } from './commands/flags.ts';
import { addForceRelease } from './commands/force-release.ts';
import { addInit } from './commands/init.ts';
import { addLog } from './commands/log.ts';
import { addLs } from './commands/ls.ts';
import { addRun } from './commands/run.ts';
import { addRuns } from './commands/runs.ts';
import { addSchema } from './commands/schema.ts';
import { addSeal } from './commands/seal.ts';
import type { Session } from './commands/session.ts';
import { addShow } from './commands/show.ts';
import { addStop } from './commands/stop.ts';
import { addTop } from './commands/top.ts';
import { addTrigger } from './commands/trigger.ts';
import { addValidate } from './commands/validate.ts';
import { EXIT, EXIT_MEANINGS } from './exit.ts';
import { escapeText } from './output/escape.ts';
import { describeFailure, failureJson } from './output/failure.ts';
import type { Io } from './output/io.ts';
import { ownVersion } from './version.ts';

const LOOK = 'Look (read only, safe at any time):';
const ACT = 'Act:';
const RUN = 'Run:';
const PROVE = 'Prove:';
const DATABASE = 'Database:';

interface Verb {
  readonly group: string;
  readonly add: (program: Command, session: Session) => Command;
  /** Shown in its help. */
  readonly example: string;
  readonly isLocal?: boolean;
}

const VERBS: readonly Verb[] = [
  { group: LOOK, add: addLs, example: "leasehold ls 'customer:*' --held" },
  { group: LOOK, add: addShow, example: 'leasehold show customer:42' },
  { group: LOOK, add: addLog, example: 'leasehold log customer:42 --json' },
  { group: LOOK, add: addTop, example: "leasehold top 'customer:*' -n 2s" },
  { group: LOOK, add: addRuns, example: 'leasehold runs nightly-report --resource reports' },
  { group: LOOK, add: addDiagnose, example: 'leasehold diagnose reports --observe -c leasehold.yaml' },
  { group: LOOK, add: addEvidence, example: 'leasehold evidence reports --out incidents -c leasehold.yaml' },
  { group: LOOK, add: addDoctor, example: 'leasehold doctor leasehold.yaml' },
  { group: ACT, add: addStop, example: 'leasehold stop reports --reason INC-4711' },
  {
    group: ACT,
    add: addForceRelease,
    example: 'leasehold force-release reports --lease-id 5f1c… --reason INC-4711 -c leasehold.yaml',
  },
  {
    group: ACT,
    add: addSeal,
    example: 'leasehold seal reports --fence ledger --reason INC-4711 -c leasehold.yaml',
  },
  { group: RUN, add: addRun, example: 'leasehold run leasehold.yaml', isLocal: true },
  {
    group: RUN,
    add: addTrigger,
    example: `leasehold trigger payments --data '{"customerId":42}'`,
    isLocal: true,
  },
  { group: RUN, add: addExec, example: 'leasehold exec reports --wait 10s -- ./report.sh --all' },
  { group: RUN, add: addValidate, example: 'leasehold validate leasehold.yaml', isLocal: true },
  { group: RUN, add: addInit, example: 'leasehold init', isLocal: true },
  { group: RUN, add: addSchema, example: 'leasehold schema > leasehold.schema.json', isLocal: true },
  { group: PROVE, add: addDrill, example: 'leasehold drill --ttl 30s --html drill.html -c leasehold.yaml' },
  {
    group: DATABASE,
    add: addFence,
    example: 'leasehold fence install -d postgres://app@db-3:5432/shop',
    isLocal: true,
  },
  { group: RUN, add: addCompletion, example: 'source <(leasehold completion bash)', isLocal: true },
];

/** One of each group. */
const EXAMPLES = `
Examples:
  $ leasehold ls --held                               who owns what
  $ leasehold stop reports --reason INC-4711          ask its owner to let go
  $ leasehold exec reports --wait 10s -- ./report.sh  run a script under a lease
`;

const EXITS = `
Exit codes:
${EXIT_MEANINGS.map(([code, meaning]) => `  ${String(code).padStart(3)}  ${meaning}`).join('\n')}
`;

interface ParsedSession extends Session {
  /** What the parser says to standard error. */
  readonly complaints: string[];
}

/** The whole command line, connected to nothing. */
function createProgram(session: ParsedSession): Command {
  const { io } = session;
  const program = new Command('leasehold')
    .usage('<command> [options]')
    .version(ownVersion(), '-V, --version', 'the version of this program')
    .description('Fenced leases: who owns what, letting go, and running under one.')
    .addHelpCommand(new Command('help').argument('[command]').summary('the help of a command').helpGroup(RUN))
    .configureHelp({
      formatHelp: (command, help) => verbsFirst(Help.prototype.formatHelp.call(help, command, help)),
      subcommandTerm: (command) =>
        [command.name(), ...command.registeredArguments.map((argument) => humanReadable(argument))].join(' '),
    })
    .helpOption('-h, --help', 'this, or the help of a command')
    // So that what comes after the verb, and after --, is the verb's.
    .enablePositionalOptions()
    .exitOverride()
    .showSuggestionAfterError()
    .showHelpAfterError('Try: leasehold --help')
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => session.complaints.push(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'leasehold: ')),
      getOutHelpWidth: () => io.stdout.columns ?? 80,
      getErrHelpWidth: () => io.stderr.columns ?? 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addHelpText('after', EXAMPLES + EXITS);
  withOutputFlags(withConnectionFlags(program));
  for (const { group, add, example, isLocal = false } of VERBS) {
    const command = add(program, session).helpGroup(group);
    command.showHelpAfterError(`Try: leasehold ${command.name()} --help`);
    if (!isLocal) withConnectionFlags(command);
    withOutputFlags(command).addHelpText('after', `\nExample:\n  $ ${example}`);
  }
  return program;
}

/** A reader wants the commands before the options that they share. */
function verbsFirst(help: string): string {
  const [usage = '', description = '', ...blocks] = help.trimEnd().split('\n\n');
  const isVerbs = (block: string): boolean =>
    [LOOK, ACT, RUN, PROVE, DATABASE].some((group) => block.startsWith(group));
  const verbs = blocks.filter(isVerbs);
  const rest = blocks.filter((block) => !isVerbs(block));
  return `${[usage, description, ...verbs, ...rest].join('\n\n')}\n`;
}

function humanReadable(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

/** Runs one command line, `argv` without node and program. Resolves with the exit code; never rejects. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  const session: ParsedSession = { io, isJson: wantsJson(argv), exit: EXIT.done, complaints: [] };
  const program = createProgram(session);
  try {
    if (argv.length === 0) program.help({ error: true });
    await program.parseAsync(helpOfUnknown(argv, program), { from: 'user' });
    return session.exit;
  } catch (error) {
    const { address, hint, complaints } = session;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    const failure =
      error instanceof CommanderError
        ? { exit: EXIT.usage, code: 'USAGE', lines: complaints.join('').trimEnd().split('\n') }
        : await describeFailure(error, { address, hint, isVerbose: isVerbose(program) });
    if (session.isJson) io.stderr.write(`${failureJson(failure)}\n`);
    else for (const line of failure.lines) io.stderr.write(`${escapeText(line)}\n`);
    return failure.exit;
  }
}

/** Before anything is parsed, so that also a command line that cannot be is answered as it asks. After `--` it is another's. */
export function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return (end === -1 ? argv : argv.slice(0, end)).includes('--json');
}

/** `help frob` is no request for the help of the program: the command that there is not is to be told, with the nearest. */
function helpOfUnknown(argv: readonly string[], program: Command): readonly string[] {
  const [verb, name] = argv;
  if (verb !== 'help' || name === undefined || name === 'help' || name.startsWith('-')) return argv;
  return program.commands.some((command) => command.name() === name) ? argv : [name];
}

function isVerbose(program: Command): boolean {
  return [program, ...program.commands.flatMap((verb) => [verb, ...verb.commands])].some(
    (command) => command.opts<CommonFlags>().verbose === true,
  );
}
