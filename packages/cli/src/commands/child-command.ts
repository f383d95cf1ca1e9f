import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { EXIT, exitOfSignal } from '../exit.ts';
import { ProcessGroup } from '../process-group.ts';

/** A command that could not be started. `exit` as shells have it. */
export class SpawnError extends Error {
  readonly exit: number;

  constructor(command: string, cause: NodeJS.ErrnoException) {
    const isMissing = cause.code === 'ENOENT';
    super(`${command} ${isMissing ? 'was not found' : `cannot be run: ${cause.message}`}`, { cause });
    this.name = 'SpawnError';
    this.exit = isMissing ? EXIT.notFound : EXIT.notExecutable;
  }
}

/**
 * A command with the standard streams of this process, as the leader of a process group, so that what it starts hears of
 * signals too. A terminal's Ctrl-C therefore reaches it by `signal` alone, once.
 */
export class ChildCommand {
  /** The command's own code, or 128 + n if a signal ended it. */
  readonly exit: Promise<number>;
  readonly #group: ProcessGroup;

  private constructor(child: ChildProcess, pid: number) {
    this.exit = once(child, 'exit').then(([code, signal]) =>
      typeof code === 'number' ? code : exitOfSignal(signal as NodeJS.Signals),
    );
    this.#group = new ProcessGroup(pid, this.exit);
  }

  /** Resolves when it runs. Rejects with `SpawnError`. */
  static async start(
    [command = '', ...args]: readonly string[],
    env: Readonly<Record<string, string | undefined>>,
  ): Promise<ChildCommand> {
    const child = spawn(command, args, { env, stdio: 'inherit', detached: true });
    const { pid } = child;
    if (pid !== undefined) return new ChildCommand(child, pid);
    const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException];
    throw new SpawnError(command, error);
  }

  /** To the command and all that it has started. */
  signal(signal: NodeJS.Signals): void {
    this.#group.signal(signal);
  }

  /** Whether the command, or something that it has started, goes on. */
  isLeft(): boolean {
    return this.#group.isAlive();
  }

  /** SIGTERM, and SIGKILL for whoever is left after `killAfterMs`. Resolves when the command is over and nobody is left. */
  terminate(killAfterMs: number): Promise<void> {
    return this.#group.terminate(killAfterMs);
  }
}
