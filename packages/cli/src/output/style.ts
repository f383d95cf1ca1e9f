import { styleText } from 'node:util';
import type { Io } from './io.ts';

/** What a piece of text means. Each has its word as well: colour is never the only sign. */
export type Tone = 'good' | 'warning' | 'bad' | 'quiet' | 'strong';

export type Style = (tone: Tone, text: string) => string;

const FORMATS: Readonly<Record<Tone, Parameters<typeof styleText>[0]>> = {
  good: 'green',
  warning: 'yellow',
  bad: ['bold', 'red'],
  quiet: 'dim',
  strong: 'bold',
};

/** `--no-color`, then FORCE_COLOR, then NO_COLOR, then whether there is a terminal that can. */
export function hasColour(io: Pick<Io, 'stdout' | 'env'>, isRefused: boolean): boolean {
  if (isRefused) return false;
  const { FORCE_COLOR: force, NO_COLOR: no, TERM: term } = io.env;
  if (force !== undefined) return force !== '0' && force !== 'false';
  if (no !== undefined && no !== '') return false;
  return io.stdout.isTTY === true && term !== 'dumb';
}

export function styleOf(isColoured: boolean): Style {
  if (!isColoured) return (_tone, text) => text;
  // Whether the stream takes colours has been decided: without this Node decides again, about the standard output.
  return (tone, text) => styleText(FORMATS[tone], text, { validateStream: false });
}
