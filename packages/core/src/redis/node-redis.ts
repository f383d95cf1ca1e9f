/** Connections of our own through node-redis, and what we need of it, structurally. */

import { EventEmitter } from 'node:events';

import type { Ear, OwnClient, Send, Serving, Visit } from './client.ts';
import { endpointText, type Endpoint } from './endpoint.ts';
import { retryDelayMs } from './ioredis.ts';
import { ownName } from './own-name.ts';

/** What `createClient` of node-redis 5 and later returns, as far as we use it. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  sendCommand(args: string[]): Promise<unknown>;
  duplicate(overrides?: object): NodeRedisClient;
  connect(): Promise<unknown>;
  destroy(): void;
  ping(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
  // oxlint-disable-next-line typescript/no-explicit-any -- each event has other arguments
  on(event: string, listener: (...args: any[]) => void): unknown;
  /** Without the user's own, which would give us buffers for strings. */
  withTypeMapping?(mapping: object): { sendCommand(args: string[]): Promise<unknown> };
}

interface Options {
  readonly socket?: object;
  readonly database?: number;
  readonly keyPrefix?: string;
  /** Of its connections. */
  readonly name?: string | undefined;
}

export function isNodeRedis(source: unknown): source is NodeRedisClient {
  const client = source as Partial<NodeRedisClient> | null;
  return (
    typeof client === 'object' &&
    client !== null &&
    typeof client.sendCommand === 'function' &&
    typeof client.duplicate === 'function' &&
    typeof client.destroy === 'function' &&
    typeof client.isReady === 'boolean' &&
    // A cluster, a sentinel and a pool send commands by other arguments, or have no connection of their own.
    typeof client.subscribe === 'function' &&
    !('masters' in client) &&
    !('getMasterNode' in client) &&
    !('getSentinelNode' in client)
  );
}

export function nodeRedisOptions(client: NodeRedisClient): Options {
  return (client as { readonly options?: Options }).options ?? {};
}

/** Options of a connection that lives once and never replays anything. */
function once(source: NodeRedisClient, connectTimeoutMs: number, to?: Endpoint): NodeRedisClient {
  return source.duplicate({
    ...(to !== undefined && { url: undefined, database: 0 }),
    // Our own loop reconnects, with a client made anew: what the old one still has in its queues is gone with it.
    socket: {
      ...nodeRedisOptions(source).socket,
      ...(to !== undefined && { host: to.host, port: to.port, path: undefined }),
      reconnectStrategy: false,
      connectTimeout: connectTimeoutMs,
      socketTimeout: undefined,
    },
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    commandOptions: { timeout: undefined },
    pingInterval: undefined,
    readonly: false,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: 'disabled',
    keyPrefix: undefined,
  });
}

/** Before anything else that it is asked; the library would not connect where it is not permitted. */
function giveName(client: NodeRedisClient, source: NodeRedisClient): void {
  const { name } = nodeRedisOptions(source);
  if (name === undefined) client.sendCommand(['CLIENT', 'SETNAME', ownName(name)]).catch(() => {});
}

/** See `visitOf`. */
export function nodeRedisVisit(source: NodeRedisClient, to: Endpoint | undefined, connectTimeoutMs: number): Visit {
  const client = once(source, connectTimeoutMs, to);
  let isOver = false;
  client.on('error', () => {});
  return {
    send: (command, args) => client.sendCommand([command, ...args]),
    async connect() {
      await client.connect();
      if (isOver) destroy(client);
      else giveName(client, source);
    },
    disconnect() {
      isOver = true;
      destroy(client);
    },
  };
}

/** See `ioredisClient`. */
export function nodeRedisClient(source: NodeRedisClient, connectTimeoutMs: number): OwnClient {
  return new Own(source, connectTimeoutMs);
}

class Own extends EventEmitter implements OwnClient {
  readonly isCluster = false;
  readonly send: Send;
  readonly #source: NodeRedisClient;
  readonly #connectTimeoutMs: number;
  #client: NodeRedisClient | undefined;
  #failures = 0;
  #isEnded = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(source: NodeRedisClient, connectTimeoutMs: number) {
    super();
    this.#source = source;
    this.#connectTimeoutMs = connectTimeoutMs;
    this.send = (command, args) => {
      const client = this.#client;
      if (client === undefined) return Promise.reject(new Error('The client is offline'));
      return client.sendCommand([command, ...args]);
    };
    // Without a listener an error would be thrown.
    this.on('error', () => {});
  }

  isOpen(): boolean {
    return this.#client !== undefined;
  }

  connect(): Promise<void> {
    let client: NodeRedisClient;
    try {
      client = once(this.#source, this.#connectTimeoutMs);
    } catch (error) {
      // Options that the library does not like: nobody is above us to hear it when it is a further attempt.
      this.emit('error', error);
      this.#gone();
      return Promise.resolve();
    }
    this.#client = client;
    const gone = (error: unknown): void => {
      if (this.#client !== client) return;
      this.emit('error', error);
      this.#gone();
    };
    client.on('error', gone);
    client.on('connect', () => this.#client === client && this.emit('connect'));
    return client.connect().then(() => {
      if (this.#client !== client) {
        // Given up while it was connecting: only now is there a socket to destroy.
        destroy(client);
        return;
      }
      this.#failures = 0;
      giveName(client, this.#source);
      this.emit('ready');
    }, gone);
  }

  nodes(): readonly Send[] {
    return [this.send];
  }

  ear(hear: (channel: string, message: string) => void): Ear {
    return earOf(once(this.#source, this.#connectTimeoutMs), this.#source, hear);
  }

  serving(): Serving {
    const {
      host = 'localhost',
      port = 6379,
      path,
    } = (nodeRedisOptions(this.#source).socket ?? {}) as {
      readonly host?: string;
      readonly port?: number;
      readonly path?: string;
    };
    return { send: this.send, address: path ?? endpointText({ host, port }), others: [] };
  }

  everyServing(): readonly Serving[] {
    return [this.serving()];
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#isEnded = true;
    this.#gone();
  }

  #gone(): void {
    const client = this.#client;
    this.#client = undefined;
    clearTimeout(this.#timer);
    if (client !== undefined) destroy(client);
    if (client !== undefined) this.emit('close');
    if (this.#isEnded) {
      this.emit('end');
      return;
    }
    this.#timer = setTimeout(() => void this.connect(), retryDelayMs(++this.#failures));
  }
}

function earOf(
  client: NodeRedisClient,
  source: NodeRedisClient,
  hear: (channel: string, message: string) => void,
): Ear {
  const listener = (message: string, channel: string): void => hear(channel, message);
  let isOver = false;
  const listeners: (() => void)[] = [];
  const over = (): void => {
    if (isOver) return;
    isOver = true;
    destroy(client);
    for (const each of listeners) each();
  };
  client.on('error', over);
  return {
    onClose: (each) => void listeners.push(each),
    async connect() {
      await client.connect();
      if (isOver) destroy(client);
      else giveName(client, source);
    },
    disconnect: over,
    subscribe: (channel) => client.subscribe(channel, listener),
    unsubscribe: (channel) => client.unsubscribe(channel, listener),
    ping: () => client.ping(),
  };
}

/** Version 5 throws if there is nothing left to destroy. */
function destroy(client: NodeRedisClient): void {
  try {
    client.destroy();
  } catch {
    // It is what we wanted.
  }
}
