import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { serverOfUrl } from '../config/redis-url.ts';
import type { RedisServerSettings, RedisSettings } from '../config/settings.ts';

/**
 * Stands between an owner and its store, on this machine. Held, it lets nothing through and nothing is lost, as when a network
 * is partitioned: what was sent meanwhile arrives when it is opened, also if the sender is gone by then.
 */
export class Gate implements AsyncDisposable {
  /** What the owner is to connect to. */
  readonly redis: RedisServerSettings;
  readonly #server: Server;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #sockets = new Set<Socket>();
  #heldBytes = 0;
  #heard: (() => void) | undefined;
  /** What is to happen when the gate opens, in its order; undefined while it is open. */
  #held: (() => void)[] | undefined;

  private constructor(server: Server, target: RedisServerSettings) {
    this.#server = server;
    this.#target = target;
    const { port } = server.address() as AddressInfo;
    const { tls, host } = target;
    // A certificate is for the name of the store.
    const own = tls === undefined ? undefined : { ...tls, servername: tls.servername ?? host };
    this.redis = { ...target, host: '127.0.0.1', port, tls: own };
    server.on('connection', (client) => this.#pass(client));
  }

  /** Undefined for what is not one server: a Cluster and sentinels name further addresses themselves. */
  static async open(redis: RedisSettings): Promise<Gate | undefined> {
    const target = typeof redis === 'string' ? serverOfUrl(new URL(redis)) : redis;
    if (target.kind !== 'server') return undefined;
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Gate(server, target);
  }

  hold(): void {
    this.#held ??= [];
  }

  /** Everything that was held goes on its way. Returns how many bytes there were. */
  release(): number {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const go of held) go();
    return this.#heldBytes;
  }

  /** Resolves when something of the owner is held. */
  async caught(): Promise<void> {
    while (this.#heldBytes === 0) await new Promise<void>((resolve) => (this.#heard = resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #pass(client: Socket): void {
    const store = connect({ ...this.#target, allowHalfOpen: true });
    for (const [from, to, isOwner] of [
      [client, store, true],
      [store, client, false],
    ] as const) {
      from.setNoDelay(true);
      this.#sockets.add(from);
      from.on('data', (bytes) => this.#when(() => to.write(bytes), isOwner ? bytes.length : 0));
      from.on('end', () => this.#when(() => to.end()));
      // A connection that breaks is one that ends, once what was sent has arrived.
      from.on('error', () => this.#when(() => to.destroy()));
      from.on('close', () => {
        this.#sockets.delete(from);
        this.#when(() => to.end());
      });
    }
  }

  /** Now, or when the gate opens. */
  #when(go: () => void, bytes = 0): void {
    if (this.#held === undefined) return go();
    this.#held.push(go);
    this.#heldBytes += bytes;
    if (bytes > 0) this.#heard?.();
  }
}
