import { once } from 'node:events';
import { closeSync, openSync, symlinkSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { Redis } from 'ioredis';

import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder, spawnGuarded } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { closed, opened } from './leftovers.ts';

/**
 * A redis-server in a network of its own, whose link to one process the test can cut: neither side hears of it, as when a
 * cable is drawn. The test itself talks to it by a socket in the file system. For `testNeeding('networks', …)`.
 */
export class FarRedis implements AsyncDisposable {
  /** For the process within: a network of its own, whose only link leads here. */
  readonly url = 'redis://10.99.0.1:6379';
  readonly socket: string;
  readonly #dir = guardedFolder('far');
  readonly #child;
  readonly #exit: Promise<unknown>;
  readonly #leftover = { what: 'a redis-server in a network of its own', end: () => this[Symbol.asyncDispose]() };

  private constructor(binary: string) {
    this.socket = join(this.#dir, 'redis.sock');
    // What it does is decided by the name that it is called by.
    const program = join(this.#dir, 'redis-server');
    symlinkSync(binary, program);
    const log = openSync(join(this.#dir, 'redis.log'), 'a');
    const network = ['--port', '6379', '--bind', '0.0.0.0', '--protected-mode', 'no', '--unixsocket', this.socket];
    // A peer that says nothing is asked whether it is still there: after 4 s it counts as gone.
    const rest = ['--tcp-keepalive', '1', '--dir', this.#dir, '--save', '', '--appendonly', 'no'];
    this.#child = spawnGuarded('unshare', ['--net', program, ...network, ...rest], {
      stdio: ['ignore', log, log],
      cwd: this.#dir,
      env: environmentOf(binary),
    });
    closeSync(log);
    this.#exit = once(this.#child, 'exit');
    opened(this.#leftover);
  }

  static async start(): Promise<FarRedis> {
    const { path } = find('redis', thisMachine);
    if (path === null) throw new Error('no redis-server');
    const server = new FarRedis(path);
    const client = new Redis({ path: server.socket, retryStrategy: () => 10, maxRetriesPerRequest: null });
    client.on('error', () => {}); // it is not there yet
    await client.ping();
    client.disconnect();
    return server;
  }

  /** What `startChild` is given as `within`. For one process. */
  get within(): readonly string[] {
    const there = `nsenter -t ${this.#child.pid} -n`;
    const script = `ip link add near type veth peer name far netns ${this.#child.pid} &&
      ip addr add 10.99.0.2/24 dev near && ip link set near up &&
      ${there} ip addr add 10.99.0.1/24 dev far && ${there} ip link set far up && exec "$@"`;
    return ['unshare', '--net', 'sh', '-c', script, 'sh'];
  }

  cut(): void {
    execFileSync('nsenter', ['-t', `${this.#child.pid}`, '-n', 'ip', 'link', 'set', 'far', 'down']);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    this.#child.kill('SIGKILL');
    await this.#exit;
    removeFolder(this.#dir);
  }
}
