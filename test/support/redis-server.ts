import { once } from 'node:events';

import { find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { type RedisProcess, startRedis as start } from '../../scripts/services/redis.mjs';
import type { FakeTime } from './faketime.ts';
import { closed, opened, type Scope } from './leftovers.ts';
import { cont, stop } from './signals.ts';

export interface RedisServerOptions {
  /** As on the command line of redis-server. By default nothing is persisted. */
  readonly args?: readonly string[];
  readonly port?: number;
  readonly faketime?: FakeTime;
  readonly scope?: Scope;
}

/** A throw-away redis-server. It answers when this resolves. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const found = find('redis', thisMachine);
  if (found.path === null) throw new Error('no redis-server');
  return RedisServer.start(found.path, options);
}

export class RedisServer implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly url: string;
  readonly dir: string;
  #process: RedisProcess;
  readonly #again: (args: readonly string[] | undefined) => Promise<RedisProcess>;
  readonly #leftover;

  private constructor(
    first: RedisProcess,
    again: (args: readonly string[] | undefined) => Promise<RedisProcess>,
    scope: Scope | undefined,
  ) {
    this.#process = first;
    this.#again = again;
    this.port = first.port;
    this.url = first.url;
    this.dir = first.dir;
    this.#leftover = { what: `redis-server on port ${first.port}`, end: () => this.stop() };
    opened(this.#leftover, scope);
  }

  static async start(binary: string, { args = [], port, faketime, scope }: RedisServerOptions): Promise<RedisServer> {
    const dir = guardedFolder('redis');
    const run = (at: number | undefined, its: readonly string[]) =>
      start({
        binary,
        dir,
        args: its,
        ...(at !== undefined && { port: at }),
        ...(faketime && { env: faketime.redisEnv }),
      });
    try {
      const first = await run(port, args);
      return new RedisServer(first, (other) => run(first.port, other ?? args), scope);
    } catch (error) {
      removeFolder(dir);
      throw error;
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Where it writes its log; of all its lives. */
  get logFile(): string {
    return this.#process.logFile;
  }

  get isRunning(): boolean {
    return this.#process.process.exitCode === null && this.#process.process.signalCode === null;
  }

  /** SIGKILL. Its folder stays, for `restart`. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    const gone = once(this.#process.process, 'exit');
    this.#process.process.kill('SIGKILL');
    await gone;
  }

  /** SIGSTOP; resolves when it is stopped. Clients stay connected and hear nothing. */
  async pause(): Promise<void> {
    await stop(this.pid);
  }

  resume(): void {
    cont(this.pid);
  }

  /** Ends it the friendly way unless it was killed, and starts it again: same port, same folder, by default the same arguments. */
  async restart(args?: readonly string[]): Promise<void> {
    await this.#process.stop();
    this.#process = await this.#again(args);
  }

  async stop(): Promise<void> {
    closed(this.#leftover);
    await this.#process.stop();
    removeFolder(this.dir);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
