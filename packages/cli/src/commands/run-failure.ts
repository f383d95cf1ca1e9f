import { CliError, EXIT } from '../exit.ts';
import { escapeText } from '../output/escape.ts';
import type { Problem } from '../config/problem.ts';
import { quoteWord } from '../output/quote.ts';
import type { Session } from './session.ts';

/** All problems of a config, each on a line of its own; other errors as they are. */
export async function runFailure(error: unknown, { io, isJson }: Session): Promise<unknown> {
  const { ConfigFileError, formatProblems } = await import('../config/problem.ts');
  // With `--json` the problems are lines of the one object.
  if (isJson || !(error instanceof ConfigFileError)) return error;
  const { problems } = error;
  for (const problem of problems) io.stderr.write(`${escapeText(`error: ${formatProblems([problem]).trimEnd()}`)}\n`);
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return new CliError(EXIT.usage, `${count}; nothing runs`, nextOf(problems));
}

/** Of a file that is none, or not there, validate has nothing more to say. */
function nextOf(problems: readonly Problem[]): string | undefined {
  const read = problems.find(({ path, line }) => path !== '' || line !== undefined);
  return read?.file === undefined ? undefined : `leasehold validate ${quoteWord(read.file)}`;
}
