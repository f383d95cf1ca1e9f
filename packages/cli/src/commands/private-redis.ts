import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisSettings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { clientOf } from '../redis.ts';

const PROGRAM = 'redis-server';
const START_WITHIN_MS = 10_000;
const ASK_AGAIN_MS = 25;
const CONNECT_TIMEOUT_MS = 1000;

/**
 * A redis-server of this process alone, on a free port of the loopback address, which keeps nothing. It ends with the process, unless that is
 * killed with SIGKILL.
 */
export class PrivateRedis implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(url: string, child: ChildProcess, folder: string) {
    this.url = url;
    this.#child = child;
    this.#folder = folder;
    process.on('exit', this.#end);
    // Told of by who waits for it.
    child.on('error', () => {});
  }

  /** Undefined if there is no redis-server in PATH. Rejects with `CliError` if there is one that does not start. */
  static async start(env: Readonly<Record<string, string | undefined>>): Promise<PrivateRedis | undefined> {
    const folder = await mkdtemp(join(tmpdir(), 'leasehold-dev-'));
    const port = await freePort();
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
    // In a process group of its own: Ctrl-C is for this process, which needs the server until its leases are released.
    const child = spawn(PROGRAM, args, { cwd: folder, env: { ...env }, stdio: 'ignore', detached: true });
    const found = await once(child, 'spawn').then(
      () => true,
      () => false,
    );
    const server = new PrivateRedis(`redis://127.0.0.1:${port}`, child, folder);
    try {
      if (found && (await server.#answers())) return server;
    } catch (error) {
      server.#end();
      throw error;
    }
    server.#end();
    if (found)
      throw new CliError(EXIT.unexpected, 'redis-server was found, and does not start', 'redis-server --version');
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) {
      const exit = once(this.#child, 'exit');
      this.#end();
      await exit;
    }
    this.#end();
  }

  async #answers(): Promise<boolean> {
    for (const until = Date.now() + START_WITHIN_MS; Date.now() < until && this.#child.exitCode === null;) {
      if (await isReachable(this.url)) return true;
      await sleep(ASK_AGAIN_MS);
    }
    return false;
  }

  /** There is nothing in it that would be worth an orderly end. */
  readonly #end = (): void => {
    process.off('exit', this.#end);
    this.#child.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  };
}

/** Whether a Redis answers there, were it with an error: then it is there, and what is wrong is not that it is missing. */
export async function isReachable(redis: RedisSettings): Promise<boolean> {
  const client = clientOf(redis, {
    calls: { maxRetriesPerRequest: 0, connectTimeout: CONNECT_TIMEOUT_MS, commandTimeout: CONNECT_TIMEOUT_MS },
    isPatient: false,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.ping();
    return true;
  } catch (error) {
    return (error as Error).name === 'ReplyError';
  } finally {
    client.disconnect();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
