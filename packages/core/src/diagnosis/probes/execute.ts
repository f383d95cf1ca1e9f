/** Running a command-line tool and reading its answer. */

import { execFile } from 'node:child_process';

/** bytes; the description of a pod with many containers takes some tens of kB. */
const MAX_OUTPUT = 4 * 2 ** 20;

export interface Executed {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Without a shell. Rejects if it cannot be started (`ENOENT`: not installed), was ended by a signal, prints more than
 * 4 MiB, or when `signal` aborts, which kills it.
 */
export function execute(
  command: string,
  args: readonly string[],
  options: {
    readonly signal: AbortSignal;
    readonly input?: string | undefined;
    /** Beside those of this process. */
    readonly env?: Readonly<Record<string, string>> | undefined;
  },
): Promise<Executed> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const child = execFile(
      command,
      [...args],
      {
        killSignal: 'SIGKILL',
        maxBuffer: MAX_OUTPUT,
        // Messages are recognised, so they must be in English.
        env: { ...process.env, LC_ALL: 'C', ...options.env },
        windowsHide: true,
      },
      (error, stdout, stderr) => {
        signal.removeEventListener('abort', kill);
        if (error === null) resolve({ exitCode: 0, stdout, stderr });
        else if (typeof error.code === 'number') resolve({ exitCode: error.code, stdout, stderr });
        else reject(Object.assign(new Error(error.message), { code: error.code }));
      },
    );
    // Not by the option `signal`: that sends SIGTERM, which can be ignored. It only reads, and must not outlast the patience.
    const kill = (): void => {
      child.kill('SIGKILL');
      child.stdout?.destroy(); // which what it has started may still hold
      child.stderr?.destroy();
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', kill, { once: true });
    child.stdin?.on('error', () => {}); // it need not read what it is given
    child.stdin?.end(options.input ?? '');
  });
}

/** It is not on this machine. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
