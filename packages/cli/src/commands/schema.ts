import type { Command } from 'commander';
import type { Session } from './session.ts';

export function addSchema(program: Command, session: Session): Command {
  return program
    .command('schema')
    .summary('JSON Schema of config files, for editors')
    .description(
      'Prints the JSON Schema (draft 2020-12) of config files; the package has it as schema.json. It is JSON with and without --json.',
    )
    .action(async () => {
      const { configJsonSchema } = await import('../config/json-schema.ts');
      session.io.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
    });
}
