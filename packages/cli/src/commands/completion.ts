import { Argument, type Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { completionOf, SHELLS, type Shell } from './completion-scripts.ts';
import { outputOf, type Session } from './session.ts';

export function addCompletion(program: Command, session: Session): Command {
  return program
    .command('completion')
    .summary('completion script for your shell')
    .description(
      'Prints a script that completes commands and options. It asks no store, so it completes no names of resources.',
    )
    .addArgument(new Argument('<shell>', 'which one').choices(SHELLS))
    .action((shell: Shell, _flags: object, command: Command) => {
      if (outputOf(session, command).isJson) throw new CliError(EXIT.usage, 'a script for a shell has no JSON form');
      session.io.stdout.write(completionOf(shell, program));
    });
}
