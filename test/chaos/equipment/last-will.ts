import { spawn, type ChildProcess } from 'node:child_process';

/**
 * What a shell does when this process has ended, however that came: SIGKILL leaves no time for anything. For what a
 * killed process would leave behind and no janitor can end: processes that are stopped or frozen and not our children.
 */
export class LastWill implements Disposable {
  readonly #shell: ChildProcess;

  constructor(script: string) {
    // Our end closes its standard input.
    this.#shell = spawn('sh', ['-c', `read -r _; ${script}`], {
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
      detached: true,
    });
    this.#shell.on('error', () => {});
    this.#shell.stdin?.on('error', () => {});
    this.#shell.unref();
  }

  /** It is not needed any more. */
  [Symbol.dispose](): void {
    this.#shell.kill('SIGKILL');
  }
}
