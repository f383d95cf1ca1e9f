/** What the probes that ask a command-line tool have in common. */

import type { OwnerFinding } from '../probe.ts';
import { execute, isMissing, type Executed } from './execute.ts';
import { answer, plain, type Answer } from './words.ts';

export interface ToolOptions {
  /** The executable, if it is not to be found on the PATH by its usual name. */
  readonly command?: string;
}

/** Asks the tool; an answer instead of its output if it cannot be asked. */
export async function ask(command: string, args: readonly string[], signal: AbortSignal): Promise<Executed | Answer> {
  try {
    return await execute(command, args, { signal });
  } catch (error) {
    if (isMissing(error)) return answer('unverifiable', `${plain(command)} is not installed here`);
    throw error;
  }
}

export function isAnswer(reply: Executed | Answer): reply is Answer {
  return 'state' in reply;
}

/** Its own words on why it gave none. */
export function refused(command: string, { stderr, exitCode }: Executed): Answer {
  const words = plain(stderr.trim().split('\n').at(-1) ?? '');
  return answer('unverifiable', `${plain(command)} did not answer: ${words === '' ? `exit code ${exitCode}` : words}`);
}

/** The value of a JSON text, undefined if it is none. */
export function fromJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function found(probe: string, { caveat = '', ...rest }: Answer, byHand: readonly string[]): OwnerFinding {
  return { probe, caveat, ...rest, byHand };
}

/**
 * For an answer about a container or a pod as a whole. Only process 1 of a container lives as long as the container:
 * another may have ended long before it.
 */
export function ofMainProcess(pid: number | undefined, { detail, ...rest }: Answer): Answer {
  if (pid === 1) return { detail, ...rest };
  return answer(
    'unverifiable',
    `${detail}, but whether process ${pid ?? 'of the owner'} in it still exists is not known`,
  );
}
