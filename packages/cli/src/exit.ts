import { constants } from 'node:os';

/** What the exit code says. Promises: scripts and orchestrators decide by them. */
export const EXIT = {
  done: 0,
  unexpected: 1,
  usage: 2,
  no: 3,
  unreachable: 4,
  busy: 75,
  lost: 76,
  notExecutable: 126,
  notFound: 127,
  interrupted: 130,
  terminated: 143,
} as const;

/** For the help and the docs, in the order of the codes. */
export const EXIT_MEANINGS: readonly (readonly [code: number, meaning: string])[] = [
  [EXIT.done, 'done'],
  [EXIT.unexpected, 'unexpected error, or a drill has shown that something fails'],
  [EXIT.usage, 'usage or configuration'],
  [EXIT.no, 'the answer is no: still held, nothing known of it, or something to do'],
  [EXIT.unreachable, 'store out of reach: nothing is known about any lease'],
  [EXIT.busy, 'not run: the resource is busy, or the tick is done with'],
  [EXIT.lost, 'the lease was lost, and what ran under it was stopped'],
  [EXIT.interrupted, 'ended by SIGINT'],
  [EXIT.terminated, 'ended by SIGTERM'],
];

/** The number that a shell gives to a process that a signal ended. */
const SIGNAL_BASE = 128;

/** 128 + n; of a signal without a known number 1. */
export function exitOfSignal(signal: NodeJS.Signals): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  const number = numbers[signal];
  return number === undefined ? EXIT.unexpected : SIGNAL_BASE + number;
}

/** Ends a command: what happened, the code, and what to type next. */
export class CliError extends Error {
  readonly exit: number;
  /** A command line or an advice. */
  readonly next: string | undefined;

  constructor(exit: number, message: string, next?: string) {
    super(message);
    this.name = 'CliError';
    this.exit = exit;
    this.next = next;
  }
}
