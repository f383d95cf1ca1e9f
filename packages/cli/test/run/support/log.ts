import { pino, type Logger } from 'pino';

export interface Line {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A logger of all levels and what it was told. */
export function recordingLog(): { readonly log: Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const stream = { write: (text: string) => void lines.push(JSON.parse(text) as Line) };
  return { log: pino({ level: 'trace', base: null }, stream), lines };
}
