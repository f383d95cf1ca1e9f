import type { Place } from './problem.ts';
import type { Raw, Source } from './source.ts';
import { readYaml } from './yaml.ts';

/** Reads JSON. Its values are also YAML, which tells where they are, and which keys are there twice. */
export function readJson(text: string, source: Source): Raw {
  try {
    JSON.parse(text);
  } catch (error) {
    const offset = offsetOfError(text);
    const { line, column } = placeOf(text, offset);
    const isOpen = offset >= text.length;
    const message = isOpen ? 'ends before it is complete' : `is no JSON: ${ruleOf(error as Error)}`;
    const remedy = isOpen
      ? 'look for a bracket or a quote that is not closed'
      : 'JSON has "double quotes", no comments, and no comma after the last; YAML allows more';
    return { value: undefined, problems: [{ ...source.problem([], message, remedy), line, column }] };
  }
  return readYaml(text, source);
}

/** What V8 says, without the piece of the file that it quotes, which may hold a password. */
function ruleOf({ message }: Error): string {
  const token = /^Unexpected (?:token '.'|number|string|identifier)/u.exec(message)?.[0];
  const rule = token ?? message.replace(/ in JSON at position.*$/, '').replace(/, ".*$/s, '');
  return rule.charAt(0).toLowerCase() + rule.slice(1);
}

/** V8 does not always say where. What can still become JSON ends where the fault begins, and can be halved. */
function offsetOfError(text: string): number {
  let good = 0;
  let bad = text.length + 1;
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (mayGoOn(text.slice(0, middle))) good = middle;
    else bad = middle;
  }
  return good;
}

function mayGoOn(start: string): boolean {
  try {
    JSON.parse(start);
    return true;
  } catch (error) {
    const { message } = error as Error;
    const position = /at position (\d+)/.exec(message)?.[1];
    if (message.startsWith('Unterminated string') || message.startsWith('Unexpected end')) return true;
    return position !== undefined && Number(position) >= start.length;
  }
}

function placeOf(text: string, offset: number): Place {
  const before = text.slice(0, offset);
  return { line: before.split('\n').length, column: offset - (before.lastIndexOf('\n') + 1) + 1 };
}
