import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

import { closed, opened, type Scope } from './leftovers.ts';

/** `up` is from the client to the server, `down` what comes back. */
export type Direction = 'up' | 'down';

/**
 * - `pass`: on they go.
 * - `swallow`: dropped for ever; on a connection that lives on, what follows makes no sense. For requests or replies lost.
 * - `hold`: kept, and delivered in order by `pass()`: a network partition that heals, as TCP shows it.
 *
 * Neither lets the end of a connection through: whoever is behind a partition does not hear that the other side is gone.
 */
export type Mode = 'pass' | 'swallow' | 'hold';

export interface Counters {
  connections: number;
  /** Connections that were turned away by `refuse()`. */
  refused: number;
  /** Pieces of bytes that a client sent: a request, or several that it wrote at once. */
  requests: number;
  replies: number;
  upBytes: number;
  downBytes: number;
  /** Bytes that did not arrive. */
  lostBytes: number;
  /** Bytes that were kept until `pass()`, or are. */
  heldBytes: number;
  /** Pieces of bytes that were made late. */
  delayed: number;
}

/** Which request: any, or one whose bytes contain this text. */
export type Match = string | RegExp | undefined;

interface Trap {
  readonly match: Match;
  readonly spring: (pair: Pair, bytes: Buffer) => void;
}

/** A TCP proxy on a loopback port whose faults a test switches while it runs. */
export class TcpProxy implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly counters: Counters = {
    connections: 0,
    refused: 0,
    requests: 0,
    replies: 0,
    upBytes: 0,
    downBytes: 0,
    lostBytes: 0,
    heldBytes: 0,
    delayed: 0,
  };
  readonly #server: Server;
  #target: { readonly host: string; readonly port: number };
  readonly #pairs = new Set<Pair>();
  readonly #traps = new Set<Trap>();
  readonly #strays = new Set<Socket>();
  readonly #mode: Record<Direction, Mode> = { up: 'pass', down: 'pass' };
  readonly #delayMs: Record<Direction, number> = { up: 0, down: 0 };
  readonly #leftover;
  #refuses = false;

  private constructor(server: Server, target: { host: string; port: number }, scope: Scope | undefined) {
    this.#server = server;
    this.#target = target;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#accept(client));
    this.#leftover = { what: `proxy on port ${this.port}`, end: () => this.close() };
    opened(this.#leftover, scope);
  }

  static async start(target: { host?: string; port: number }, scope?: Scope): Promise<TcpProxy> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(server, { host: target.host ?? '127.0.0.1', port: target.port }, scope);
  }

  get redisUrl(): string {
    return `redis://${this.host}:${this.port}`;
  }

  get openConnections(): number {
    return this.#pairs.size;
  }

  /** No more faults, new connections welcome; what was held is delivered. */
  pass(): void {
    this.#refuses = false;
    this.delay({ up: 0, down: 0 });
    this.#set('pass', 'up', 'down');
  }

  swallow(...directions: Direction[]): void {
    this.#set('swallow', ...directions);
  }

  hold(...directions: Direction[]): void {
    this.#set('hold', ...directions);
  }

  /** Everything that arrives from now on is late by so much, in order. */
  delay(ms: Partial<Record<Direction, number>>): void {
    Object.assign(this.#delayMs, ms);
  }

  /** Ends every connection: `reset` with RST, `end` with FIN. New ones are welcome. */
  cut(how: 'reset' | 'end' = 'reset'): void {
    for (const pair of [...this.#pairs]) pair.cut(how);
  }

  /** New connections are reset at once; those that are open stay. */
  refuse(): void {
    this.#refuses = true;
  }

  /** New connections are led to this server; those that are open stay where they are. */
  leadTo(port: number): void {
    this.#target = { ...this.#target, port };
  }

  /** The next (such) request, when it has arrived here. Aborted, it is waited for no longer, and this never settles. */
  nextRequest(match?: Match, signal?: AbortSignal): Promise<Buffer> {
    return new Promise((resolve) => this.#trap(match, (_, bytes) => resolve(bytes), signal));
  }

  /** The server executes the next (such) request, its reply is lost and the connection reset. Resolves when that has happened. */
  loseNextReply(match?: Match, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const lose = (pair: Pair): void =>
        pair.onNextReply((bytes) => {
          this.counters.lostBytes += bytes.length;
          pair.cut('reset');
          resolve();
        });
      this.#trap(match, lose, signal);
    });
  }

  /** The next (such) request does not reach the server and its connection is reset. */
  loseNextRequest(match?: Match): Promise<void> {
    return new Promise((resolve) => {
      this.#trap(match, (pair, bytes) => {
        this.counters.lostBytes += bytes.length;
        pair.cut('reset');
        resolve();
      });
    });
  }

  /**
   * The bytes of the next (such) request reach the server twice, the copy on a connection of its own, as a packet that was
   * late. With `when` the copy waits for it. Resolves with what the server said to the copy.
   */
  async duplicateNextRequest(match?: Match, when?: Promise<unknown>): Promise<Buffer> {
    const bytes = await this.nextRequest(match);
    await when;
    return this.replay(bytes);
  }

  /** Sends bytes to the server on a new connection and gives the first piece of the answer. */
  async replay(bytes: Buffer): Promise<Buffer> {
    const socket = connect(this.#target);
    this.#strays.add(socket);
    try {
      socket.write(bytes);
      const [answer] = await once(socket, 'data');
      return answer as Buffer;
    } finally {
      this.#strays.delete(socket);
      socket.destroy();
    }
  }

  async close(): Promise<void> {
    closed(this.#leftover);
    for (const socket of this.#strays) socket.destroy();
    this.cut('reset');
    if (!this.#server.listening) return;
    const gone = once(this.#server, 'close');
    this.#server.close();
    await gone;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #set(mode: Mode, ...directions: Direction[]): void {
    for (const direction of directions) this.#mode[direction] = mode;
    for (const pair of this.#pairs) pair.flush();
  }

  #trap(match: Match, spring: Trap['spring'], signal?: AbortSignal): void {
    const forget = (): void => void this.#traps.delete(trap);
    const trap: Trap = {
      match,
      spring(pair, bytes) {
        signal?.removeEventListener('abort', forget);
        spring(pair, bytes);
      },
    };
    this.#traps.add(trap);
    signal?.addEventListener('abort', forget, { once: true });
  }

  #accept(client: Socket): void {
    if (this.#refuses) {
      this.counters.refused++;
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    this.counters.connections++;
    const pair: Pair = new Pair(client, connect({ ...this.#target, allowHalfOpen: true, noDelay: true }), {
      mode: (direction) => this.#mode[direction],
      delayMs: (direction) => this.#delayMs[direction],
      arrived: (direction, bytes) => this.#arrived(pair, direction, bytes),
      lost: (bytes) => (this.counters.lostBytes += bytes),
      held: (bytes) => (this.counters.heldBytes += bytes),
      delayed: () => this.counters.delayed++,
      gone: () => this.#pairs.delete(pair),
    });
    this.#pairs.add(pair);
  }

  #arrived(pair: Pair, direction: Direction, bytes: Buffer): void {
    if (direction === 'down') {
      this.counters.replies++;
      this.counters.downBytes += bytes.length;
      return;
    }
    this.counters.requests++;
    this.counters.upBytes += bytes.length;
    const text = bytes.toString('latin1');
    for (const trap of [...this.#traps]) {
      const { match } = trap;
      if (match !== undefined && (typeof match === 'string' ? !text.includes(match) : !match.test(text))) continue;
      this.#traps.delete(trap);
      trap.spring(pair, bytes);
    }
  }
}

interface Faults {
  mode(direction: Direction): Mode;
  delayMs(direction: Direction): number;
  /** Called before the bytes go on; may cut the pair. */
  arrived(direction: Direction, bytes: Buffer): void;
  lost(bytes: number): void;
  held(bytes: number): void;
  delayed(): void;
  gone(): void;
}

/** `null` stands for the end of the stream. */
interface Piece {
  readonly bytes: Buffer | null;
  readonly dueAt: number;
}

/** One client's connection and ours to the server. */
class Pair {
  readonly #sockets: Record<Direction, Socket>;
  readonly #queues: Record<Direction, Piece[]> = { up: [], down: [] };
  readonly #timers: Partial<Record<Direction, NodeJS.Timeout>> = {};
  readonly #faults: Faults;
  #replyTrap: ((bytes: Buffer) => void) | null = null;
  #isCut = false;

  constructor(client: Socket, server: Socket, faults: Faults) {
    this.#faults = faults;
    this.#sockets = { up: server, down: client }; // where each direction leads to
    this.#listen(client, 'up');
    this.#listen(server, 'down');
  }

  onNextReply(trap: (bytes: Buffer) => void): void {
    this.#replyTrap = trap;
  }

  cut(how: 'reset' | 'end'): void {
    if (this.#isCut) return;
    this.#isCut = true;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    for (const socket of Object.values(this.#sockets)) {
      if (how === 'reset') socket.resetAndDestroy();
      else socket.end(() => socket.destroy());
    }
    this.#faults.gone();
  }

  flush(): void {
    this.#move('up');
    this.#move('down');
  }

  #listen(from: Socket, direction: Direction): void {
    from.on('error', () => {}); // `close` follows
    from.on('data', (bytes: Buffer) => {
      if (this.#isCut) return;
      this.#faults.arrived(direction, bytes);
      if (direction === 'down' && this.#replyTrap !== null) {
        const trap = this.#replyTrap;
        this.#replyTrap = null;
        trap(bytes);
      }
      // A trap may have cut.
      if (!this.#isCut) this.#push(direction, bytes);
    });
    from.on('end', () => this.#push(direction, null));
    from.on('close', (hadError) => {
      if (this.#isCut) return;
      if (hadError && this.#faults.mode(direction) === 'pass') this.cut('reset');
      else this.#push(direction, null);
    });
  }

  #push(direction: Direction, bytes: Buffer | null): void {
    if (this.#faults.mode(direction) === 'swallow' && bytes !== null) {
      this.#faults.lost(bytes.length);
      return;
    }
    const queue = this.#queues[direction];
    const delayMs = this.#faults.delayMs(direction);
    if (this.#faults.mode(direction) === 'hold' && bytes !== null) this.#faults.held(bytes.length);
    if (delayMs > 0 && bytes !== null) this.#faults.delayed();
    const dueAt = Math.max(queue.at(-1)?.dueAt ?? 0, performance.now() + delayMs);
    queue.push({ bytes, dueAt });
    this.#move(direction);
  }

  #move(direction: Direction): void {
    clearTimeout(this.#timers[direction]);
    const queue = this.#queues[direction];
    const to = this.#sockets[direction];
    while (this.#faults.mode(direction) === 'pass' && queue[0] !== undefined) {
      const waitMs = queue[0].dueAt - performance.now();
      if (waitMs > 0) {
        this.#timers[direction] = setTimeout(() => this.#move(direction), waitMs);
        return;
      }
      const { bytes } = queue.shift() as Piece;
      if (bytes !== null) to.write(bytes);
      else to.end();
    }
    if (this.#sockets.up.destroyed && this.#sockets.down.destroyed) this.#faults.gone();
  }
}
