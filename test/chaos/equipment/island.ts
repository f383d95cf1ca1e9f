import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { guardedFolder, removeFolder, spawnGuarded } from '../../../scripts/services/guard.mjs';
import { closed, opened } from '../../support/leftovers.ts';

const GATE = fileURLToPath(new URL('./gate.mjs', import.meta.url));

/** In its network, whatever the ports are outside. */
const PORTS = { redis: 6379, fence: 5432 };

/**
 * A network for one process, whose only cable leads to a gate, and the gate's only way on are sockets in the file system. The cable
 * can be drawn: neither side hears of it. For `networks`. All of it is gone with its processes.
 */
export class Island implements AsyncDisposable {
  /** Where the process within finds what is outside. */
  readonly host = '10.99.0.1';
  readonly ports: typeof PORTS = PORTS;
  readonly #dir = guardedFolder('island');
  readonly #servers: readonly Server[];
  readonly #sockets = new Set<Socket>();
  readonly #gate;
  readonly #exit: Promise<unknown>;
  readonly #leftover = { what: 'a network of its own', end: () => this[Symbol.asyncDispose]() };

  private constructor(outside: { readonly redis: number; readonly fence: number }) {
    this.#servers = [this.#lead('redis', outside.redis), this.#lead('fence', outside.fence)];
    const ways = Object.entries(PORTS).map(([name, port]) => `${port}=${this.#socketOf(name)}`);
    this.#gate = spawnGuarded('unshare', ['--net', process.execPath, GATE, ...ways], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: undefined },
    });
    this.#exit = once(this.#gate, 'exit');
    opened(this.#leftover);
  }

  /** `outside`: loopback ports of this machine. */
  static async start(outside: { readonly redis: number; readonly fence: number }): Promise<Island> {
    const island = new Island(outside);
    const { stdout } = island.#gate;
    if (stdout !== null) await once(stdout, 'data');
    return island;
  }

  /** What `startChild` is given as `within`, for one process at a time. */
  get within(): readonly string[] {
    const there = `nsenter -t ${this.#gate.pid} -n`;
    const script = `${there} ip link del far 2> /dev/null
      ip link add near type veth peer name far netns ${this.#gate.pid} &&
      ip addr add 10.99.0.2/24 dev near && ip link set near up &&
      ${there} ip addr add ${this.host}/24 dev far && ${there} ip link set far up && exec "$@"`;
    return ['unshare', '--net', 'sh', '-c', script, 'sh'];
  }

  /** Throws if no process is within. */
  cut(): void {
    this.#link('down');
  }

  /** Does nothing if no process is within. */
  mend(): void {
    try {
      this.#link('up');
    } catch {
      // the cable went with its process
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    this.#gate.kill('SIGKILL');
    await this.#exit;
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
    removeFolder(this.#dir);
  }

  #link(state: 'up' | 'down'): void {
    const there = ['-t', `${this.#gate.pid}`, '-n'];
    execFileSync('nsenter', [...there, 'ip', 'link', 'set', 'far', state], { stdio: 'pipe' });
  }

  #socketOf(name: string): string {
    return join(this.#dir, `${name}.sock`);
  }

  #lead(name: string, port: number): Server {
    const server = createServer((from) => {
      const to = connect({ host: '127.0.0.1', port, noDelay: true });
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const) {
        this.#sockets.add(one);
        one.on('error', () => {}); // `close` follows
        one.on('close', () => {
          this.#sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    server.listen(this.#socketOf(name));
    return server;
  }
}
