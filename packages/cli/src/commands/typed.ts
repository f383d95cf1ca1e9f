import type { Command } from 'commander';
import { quoteWord } from '../output/quote.ts';

/**
 * The command line that was typed, with a flag more, for a message. Of the flags that it had it says only that there are some: an address may
 * hold a password.
 */
export function typedLine(command: Command, more: string): string {
  const path: string[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) path.unshift(at.name());
  const names = command.args.slice(0, command.registeredArguments.filter(({ variadic }) => !variadic).length);
  const hasMore =
    names.length < command.args.length ||
    Object.keys(command.optsWithGlobals()).some((flag) => command.getOptionValueSourceWithGlobals(flag) === 'cli');
  return [...path, ...names.map(quoteWord), more, ...(hasMore ? ['…'] : [])].join(' ');
}
