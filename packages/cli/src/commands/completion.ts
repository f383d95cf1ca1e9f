import { Argument, type Command } from 'commander';
import { completionOf, SHELLS, type Shell } from './completion-scripts.ts';
import type { Session } from './session.ts';

export function addCompletion(program: Command, session: Session): Command {
  return program
    .command('completion')
    .summary('completion script for your shell')
    .description(
      'Prints a script that completes commands and options. It asks no store, so it completes no names of resources.',
    )
    .addArgument(new Argument('<shell>', 'which one').choices(SHELLS))
    .action((shell: Shell) => {
      session.io.stdout.write(completionOf(shell, program));
    });
}
