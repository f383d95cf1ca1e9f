import type { LeaseholdError } from '@leasehold/core';
import type { Problem } from '../config/problem.ts';
import { CliError, EXIT } from '../exit.ts';
import { escapeJson } from './escape.ts';

/** What to say about an error, and with which code to end. */
export interface Failure {
  readonly exit: number;
  /** Of a Leasehold error its own; of others what the exit code means: `USAGE`, `NO`, `UNEXPECTED`. */
  readonly code: string;
  /** Each for a line of its own; the first says what happened. */
  readonly lines: readonly string[];
}

interface Place {
  /** Of the store, without credentials; undefined if none was chosen yet. */
  readonly address?: string | undefined;
  /** What may help where no store was named; a command line. */
  readonly hint?: string | undefined;
  readonly isVerbose?: boolean | undefined;
}

/** By the codes of `LeaseholdError`. What is not here is unexpected. */
const EXIT_OF_CODE: Readonly<Record<string, number>> = {
  CONFIG: EXIT.usage,
  STORE_UNAVAILABLE: EXIT.unreachable,
  STORE_AUTH: EXIT.unreachable,
  STORE_VERSION: EXIT.unreachable,
  RESOURCE_BUSY: EXIT.busy,
  ACQUIRE_TIMEOUT: EXIT.busy,
  TICK_REFUSED: EXIT.busy,
  LEASE_LOST: EXIT.lost,
  UNSAFE_RELEASE: EXIT.no,
  FOREIGN_KEY: EXIT.no,
};

/** Message, cause, next command. Never rejects. */
export async function describeFailure(error: unknown, place: Place = {}): Promise<Failure> {
  const own = ownOf(error);
  const exit = error instanceof CliError ? error.exit : (EXIT_OF_CODE[own?.code ?? ''] ?? EXIT.unexpected);
  const lines = await headOf(error);
  const causes = causesOf(error);
  const cause = causes.at(-1);
  if (place.isVerbose !== true && cause !== undefined && !lines[0]?.includes(messageOf(cause))) {
    lines.push(`Because: ${messageOf(cause)}`);
  }
  if (place.isVerbose === true) lines.push(...causes.map((its) => `Because: ${messageOf(its)}`));
  if (exit === EXIT.unreachable) lines.push('Nothing is known about any lease.');
  const next = nextOf(error, exit, place);
  if (next !== undefined) lines.push(`Try: ${next}`);
  if (place.isVerbose === true && error instanceof Error && error.stack !== undefined) {
    lines.push(...error.stack.split('\n').slice(1));
  }
  return { exit, code: own?.code ?? codeOfExit(exit), lines };
}

/** For `--json`: one object; `details` are the lines that people are told after the message. */
export function failureJson({ exit, code, lines }: Failure): string {
  const [message = '', ...details] = lines;
  const fields = { schema: 'leasehold/error/v1', exit, code, message: message.replace(/^leasehold: /, ''), details };
  return escapeJson(JSON.stringify(fields));
}

function codeOfExit(exit: number): string {
  const [name] = Object.entries(EXIT).find(([, code]) => code === exit) ?? ['unexpected'];
  return name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** Of a config all that is wrong with it: an error names only the first. */
async function headOf(error: unknown): Promise<string[]> {
  if (!isOfConfig(error)) return [`leasehold: ${messageOf(error)}`];
  const { formatProblems } = await import('../config/problem.ts');
  const lines = error.problems.map((problem) => formatProblems([problem]).trimEnd());
  return ['leasehold: the config cannot be used', ...lines];
}

function isOfConfig(error: unknown): error is Error & { readonly problems: readonly Problem[] } {
  return error instanceof Error && 'problems' in error && Array.isArray(error.problems);
}

function nextOf(error: unknown, exit: number, { address, hint }: Place): string | undefined {
  if (error instanceof CliError) return error.next;
  if (hint !== undefined && (exit === EXIT.unreachable || isOfConfig(error))) return hint;
  if (exit === EXIT.unreachable && address?.includes('://') === true) return `leasehold doctor -u ${address}`;
  if (exit === EXIT.unexpected) return 'the same command with --verbose';
  return undefined;
}

/** By its looks: the class would bring the whole of core, which is not loaded for a wrong flag. */
function ownOf(error: unknown): LeaseholdError | undefined {
  const isOwn = error instanceof Error && Symbol.for('leasehold.error') in error;
  return isOwn ? (error as unknown as LeaseholdError) : undefined;
}

function causesOf(error: unknown): readonly unknown[] {
  const causes: unknown[] = [];
  let at: unknown = error instanceof Error ? error.cause : undefined;
  for (; at !== undefined && causes.length < 10; at = at instanceof Error ? at.cause : undefined) causes.push(at);
  return causes;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A connection that failed on several addresses has an empty message.
  const code = (error as { readonly code?: unknown }).code;
  return error.message || (typeof code === 'string' ? code : error.name);
}
