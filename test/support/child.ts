import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { sourceArgs } from '../../scripts/lib/prepare.mjs';
import { spawnGuarded } from '../../scripts/services/guard.mjs';
import { closed, opened, type Scope } from './leftovers.ts';
import { programOf } from './programs.ts';
import { cont, stop } from './signals.ts';

/** What a child says (`say` of child-side.ts): a type and whatever belongs to it. */
export interface Message {
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface ChildOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly execArgv?: readonly string[];
  /** A command that becomes the child: `['unshare', '--mount']`. */
  readonly within?: readonly string[];
  /** Start it by tsx, for one that imports TypeScript by a path which it is given. @default false, the compiled form that there is in a run of the tests */
  readonly fromSource?: boolean;
  /** The binary of another Node. @default this one */
  readonly node?: string | undefined;
  readonly scope?: Scope;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * Runs a TypeScript file as a process of its own: `startChild(new URL('./worker.ts', import.meta.url))`. Its compiled form if
 * there is one (programs.ts), else from the sources.
 */
export function startChild(file: URL | string, options: ChildOptions = {}): Child {
  return new Child(file instanceof URL ? fileURLToPath(file) : file, options);
}

export class Child implements AsyncDisposable {
  readonly pid: number;
  readonly exit: Promise<Exit>;
  /** Standard output and standard error, as they came. */
  output = '';
  #unread: Message[] = [];
  readonly #waiters = new Set<() => void>();
  readonly #process: ChildProcess;
  readonly #leftover;
  #ended: Exit | null = null;

  constructor(
    path: string,
    {
      args = [],
      env = {},
      execArgv = [],
      within = [],
      fromSource = false,
      node = process.execPath,
      scope,
    }: ChildOptions,
  ) {
    const built = fromSource ? undefined : programOf(path);
    const nodeArgs = built === undefined ? sourceArgs() : ['--enable-source-maps'];
    const [command = node, ...rest] = [...within, node, ...nodeArgs, ...execArgv, built ?? path, ...args];
    const child = spawnGuarded(command, rest, {
      env: { ...process.env, NODE_OPTIONS: undefined, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      serialization: 'advanced',
    });
    if (child.pid === undefined) throw new Error(`${path} could not be started`);
    this.#process = child;
    this.pid = child.pid;
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes) => (this.output += bytes));
    child.on('message', (message) => {
      this.#unread.push(message as Message);
      this.#wake();
    });
    // `close` comes after the last message and the last output.
    this.exit = once(child, 'close').then(([code, signal]) => {
      closed(this.#leftover);
      this.#ended = { code, signal };
      this.#wake();
      return this.#ended;
    });
    this.#leftover = { what: `child process ${path}`, end: () => this.kill9() };
    opened(this.#leftover, scope);
  }

  /** The next unread message of this type; an error if the child ends first or the time is over. */
  async next<T extends object = Message>(type: string, { timeoutMs = 15_000 } = {}): Promise<T> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#wake();
    }, timeoutMs);
    try {
      for (;;) {
        const index = this.#unread.findIndex((message) => message.type === type);
        if (index >= 0) return this.#unread.splice(index, 1)[0] as T;
        const why = this.#ended
          ? `ended (${JSON.stringify(this.#ended)})`
          : isLate
            ? `was silent for ${timeoutMs} ms`
            : null;
        if (why !== null) {
          const heard = this.#unread.map((message) => message.type).join(', ') || 'nothing';
          throw new Error(`child ${why} and did not say '${type}'; unread: ${heard}; its output:\n${this.output}`);
        }
        await new Promise<void>((wake) => {
          this.#waiters.add(wake);
        });
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** The messages that nobody has taken by `next`. */
  get unread(): readonly Message[] {
    return this.#unread;
  }

  /** One that has just ended does not hear it, and `next` says so. */
  send(type: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#process.send({ type, ...fields }, () => {});
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  async kill9(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.exit;
  }

  /** SIGSTOP; resolves when it is stopped. */
  async stop(): Promise<void> {
    await stop(this.pid);
  }

  cont(): void {
    cont(this.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill9();
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}
