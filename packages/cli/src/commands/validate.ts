import type { Command } from 'commander';
import type { Advice } from '../config/advice.ts';
import type { Problem } from '../config/problem.ts';
import { EXIT } from '../exit.ts';
import type { Output } from '../output/output.ts';
import type { Cell, Column } from '../output/table.ts';
import { fileNamed, readJobs } from './config-file.ts';
import { nextFlag } from './flags.ts';
import { outputOf, type Session } from './session.ts';

interface ValidateFlags {
  readonly next: number;
}

/** What came of it: a config without problems has its jobs and their next ticks. */
interface Verdict {
  /** Undefined if there is none. */
  readonly file: string | undefined;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly schedules: Advice['schedules'];
  readonly jobs: number;
}

const COLUMNS: readonly Column[] = [
  { title: 'JOB', yields: 'last' },
  { title: 'SCHEDULE' },
  { title: 'ZONE', yields: 'first' },
  { title: 'NEXT' },
];

export function addValidate(program: Command, session: Session): Command {
  return program
    .command('validate')
    .summary('check a config file: problems, warnings, next ticks')
    .description(
      'Checks a config file, and that its handlers exist, without connecting to anything. Prints every problem with file, line and column. Exit 2 if there is one.',
    )
    .argument('[file]', 'the config (leasehold.yaml and the like in this folder)')
    .addOption(nextFlag(3))
    .action(async (file: string | undefined, { next }: ValidateFlags, command: Command) => {
      const output = outputOf(session, command);
      const verdict = await judge(file, session.io.env, next);
      if (verdict.problems.length > 0) session.exit = EXIT.usage;
      if (output.isJson)
        return output.json('validation', {
          valid: verdict.problems.length === 0,
          ...verdict,
          file: verdict.file ?? '.',
        });
      await print(verdict, output);
    });
}

async function judge(
  file: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  next: number,
): Promise<Verdict> {
  const [{ ConfigFileError }, { checkConfig }, { resolveHandlers }] = await Promise.all([
    import('../config/problem.ts'),
    import('../config/advice.ts'),
    import('../config/handlers.ts'),
  ]);
  let found: string | undefined;
  try {
    found = await fileNamed(file);
    const { config } = await readJobs(found, env);
    const { warnings, schedules } = checkConfig(config, { count: next });
    const problems = await resolveHandlers(config).then(
      () => [],
      (error: unknown) => {
        if (error instanceof ConfigFileError) return error.problems;
        throw error;
      },
    );
    return { file: found, problems, warnings, schedules, jobs: config.settings.jobs.length };
  } catch (error) {
    if (error instanceof ConfigFileError) {
      return { file: found, problems: error.problems, warnings: [], schedules: [], jobs: 0 };
    }
    throw error;
  }
}

async function print({ file, problems, warnings, schedules, jobs }: Verdict, output: Output): Promise<void> {
  const { formatProblems } = await import('../config/problem.ts');
  for (const [kind, found] of [
    ['error', problems],
    ['warning', warnings],
  ] as const) {
    for (const problem of found) output.line(`${kind}: ${formatProblems([problem]).trimEnd()}`);
  }
  if (problems.length > 0) {
    const count = counted(problems.length, 'problem');
    output.warn(`${file === undefined ? '' : `${file}: `}${count}; nothing would run`, 'bad');
    return;
  }
  if (schedules.length > 0) {
    await output.table(
      COLUMNS,
      schedules.flatMap(({ job, expression, timezone, next }): Cell[][] =>
        (next.length === 0 ? ['never'] : next.map((at) => at.toISOString())).map((at) => [
          { text: job },
          { text: expression },
          { text: timezone },
          { text: at },
        ]),
      ),
    );
  }
  output.note(`${file}: valid, ${counted(jobs, 'job')}, ${counted(warnings.length, 'warning')}`);
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
