import { createInterface } from 'node:readline/promises';
import { CliError, EXIT } from '../exit.ts';
import { escapeText } from '../output/escape.ts';
import type { Io } from '../output/io.ts';

/** Whether somebody sits there who can type a name. */
function hasReader(io: Io): boolean {
  return io.stdin.isTTY === true && io.stderr.isTTY === true;
}

/** Without `--yes` somebody must be there to be asked. Throws `CliError`, exit 2, before anything is done. */
export function checkConfirmable(io: Io, isConfirmed: boolean, command: string): void {
  if (isConfirmed || hasReader(io)) return;
  throw new CliError(EXIT.usage, 'nobody is there to be asked (no terminal): this needs --yes', `${command} --yes`);
}

/** Wants the name typed, so that nobody acts on the wrong one by habit. Throws `CliError`, exit 2, for anything else. */
export async function confirmByName(io: Io, question: string, name: string): Promise<void> {
  const lines = createInterface({ input: io.stdin, output: io.stderr as NodeJS.WritableStream & typeof io.stderr });
  try {
    const typed = await lines.question(`${escapeText(question)}\nType ${escapeText(name)} to go on: `);
    if (typed.trim() !== name) throw new CliError(EXIT.usage, 'that is not its name; nothing was done');
  } finally {
    lines.close();
  }
}
