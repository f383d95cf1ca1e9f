import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { escapeText } from '../output/escape.ts';
import type { Io } from '../output/io.ts';
import { typedLine } from './typed.ts';

/** Whether somebody sits there who can type a name. */
function hasReader(io: Io): boolean {
  return io.stdin.isTTY === true && io.stderr.isTTY === true;
}

/** Without `--yes` somebody must be there to be asked. Throws `CliError`, exit 2, before anything is done. */
export function checkConfirmable(io: Io, isConfirmed: boolean, command: Command): void {
  if (isConfirmed || hasReader(io)) return;
  throw new CliError(
    EXIT.usage,
    'nobody is there to be asked (no terminal): this needs --yes',
    typedLine(command, '--yes'),
  );
}

/**
 * Wants the name typed, so that nobody acts on the wrong one by habit. Throws `CliError`: exit 2 for anything else, also
 * for the end of the input; 130 for Ctrl-C. An aborted signal ends it with its reason.
 */
export async function confirmByName(io: Io, question: string, name: string, signal?: AbortSignal): Promise<void> {
  const typed = await ask(io, `${escapeText(question)}\nType ${escapeText(name)} to go on: `, signal);
  if (typed?.trim() !== name) throw new CliError(EXIT.usage, 'that is not its name; nothing was done');
}

/** One line, or undefined at the end of the input. */
function ask(io: Io, question: string, signal?: AbortSignal): Promise<string | undefined> {
  const lines = createInterface({ input: io.stdin, output: io.stderr as NodeJS.WritableStream & typeof io.stderr });
  const abort = new AbortController();
  return new Promise<string | undefined>((resolve, reject) => {
    const { signal: answered } = abort;
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true, signal: answered });
    lines.on('SIGINT', () => {
      io.stderr.write('\n');
      reject(new CliError(EXIT.interrupted, 'interrupted; nothing was done'));
    });
    lines.on('close', () => {
      io.stderr.write('\n');
      resolve(undefined);
    });
    lines.question(question, (line) => {
      lines.removeAllListeners('close');
      resolve(line);
    });
  }).finally(() => {
    abort.abort();
    lines.removeAllListeners('close');
    lines.close();
  });
}
