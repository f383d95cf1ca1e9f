import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

import { connectRedis } from '../support/redis-client.ts';
import type { RedisServer } from '../support/redis-server.ts';

/** What changes everything at once, or whose data a server has. */
const OF_THE_SERVER = new Set([
  'flushall',
  'flushdb',
  'swapdb',
  'replicaof',
  'slaveof',
  'failover',
  'shutdown',
  'debug',
]);
const READS = new Set(
  'hget hgetall hmget hlen hkeys hvals hscan hexists get strlen getrange type ttl pttl expiretime pexpiretime exists object dump memory touch keys scan xrange xrevrange xlen xinfo xread watch'.split(
    ' ',
  ),
);

/**
 * Sees what is done to the lease of a resource with `redis-cli`, past Leasehold, which writes by scripts alone: every
 * command that is sent to a server, as its MONITOR tells it.
 */
export class Hands implements AsyncDisposable {
  readonly #url: string;
  readonly #socket: Socket;
  readonly #keys: readonly string[];
  /** What was done, in words of redis-cli; oldest first. */
  readonly #writes: string[] = [];
  readonly #marks = new Map<string, () => void>();

  private constructor({ url, host, port }: RedisServer, keys: readonly string[]) {
    this.#url = url;
    this.#keys = keys;
    this.#socket = connect(port, host);
    this.#socket.on('error', () => {});
    createInterface({ input: this.#socket }).on('line', (line) => this.#see(line));
    this.#socket.write('MONITOR\r\n');
  }

  static async watch(server: RedisServer, keys: readonly string[]): Promise<Hands> {
    const hands = new Hands(server, keys);
    await once(hands.#socket, 'data'); // +OK
    return hands;
  }

  /** All that was sent before this. Rejects if the server is gone. */
  async seen(): Promise<readonly string[]> {
    await using client = await connectRedis(this.#url);
    const mark = randomUUID();
    const told = new Promise<void>((resolve) => {
      this.#marks.set(mark, resolve);
    });
    await client.echo(mark);
    await told;
    return this.#writes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy();
  }

  /** `+1796029416.079221 [0 127.0.0.1:4711] "DEL" "shop:{reports}"` */
  #see(line: string): void {
    const [, source, rest = ''] = /^\+[\d.]+ \[\d+ ([^\]]*)\] (.*)$/.exec(line) ?? [];
    if (source === undefined || source === 'lua') return;
    const args = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, arg = '']) => arg);
    const name = (args[0] ?? '').toLowerCase();
    if (name === 'echo') this.#marks.get(args[1] ?? '')?.();
    const isOfKeys = !READS.has(name) && !/^(eval|fcall)/.test(name) && args.some((arg) => this.#keys.includes(arg));
    if (isOfKeys || OF_THE_SERVER.has(name)) this.#writes.push(args.join(' '));
  }
}
