import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { serverOfUrl } from '../config/redis-url.ts';
import type { NodeSettings, RedisSettings, TlsSettings } from '../config/settings.ts';
import type { Detours } from '../redis.ts';
import { nodesOfStore } from './nodes.ts';

/**
 * Stands between an owner and its store, on this machine: a door for each server. Held, it lets nothing through and nothing is lost, as
 * when a network is partitioned: what was sent meanwhile arrives when it is opened, also if the sender is gone by then.
 */
export class Gate implements AsyncDisposable {
  /** What the owner is to connect to. */
  readonly redis: RedisSettings;
  /** For addresses that the store itself tells. */
  readonly detours: Detours;
  readonly #doors: Doors;

  private constructor(redis: RedisSettings, detours: Detours, doors: Doors) {
    this.redis = redis;
    this.detours = detours;
    this.#doors = doors;
  }

  /** Rejects if a Cluster or sentinels cannot be asked for their servers. */
  static async open(redis: RedisSettings): Promise<Gate> {
    const given = typeof redis === 'string' ? serverOfUrl(new URL(redis)) : redis;
    const doors = new Doors();
    try {
      if (given.kind === 'server') {
        return new Gate({ ...given, ...(await doors.to(given)), tls: namedTls(given.tls, given.host) }, {}, doors);
      }
      const nodes = await nodesOfStore(given);
      const detours = Object.fromEntries(
        await Promise.all(nodes.map(async (node) => [`${node.host}:${node.port}`, await doors.to(node)] as const)),
      );
      const tls = namedTls(given.tls, nodes[0]?.host);
      // Sentinels are not the store; a Cluster is told of by its nodes.
      const own = given.kind === 'cluster' ? { ...given, nodes: Object.values(detours), tls } : { ...given, tls };
      return new Gate(own, detours, doors);
    } catch (error) {
      doors.close();
      throw error;
    }
  }

  hold(): void {
    this.#doors.hold();
  }

  /** Everything that was held goes on its way. Returns how many bytes of the owner there were. */
  release(): number {
    return this.#doors.release();
  }

  /** Resolves when something of the owner is held. */
  caught(): Promise<void> {
    return this.#doors.caught();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#doors.close();
  }
}

/** A certificate is for the name of the store. */
function namedTls(tls: TlsSettings | undefined, host: string | undefined): TlsSettings | undefined {
  return tls === undefined ? undefined : { ...tls, servername: tls.servername ?? host };
}

class Doors {
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  #heldBytes = 0;
  #heard: (() => void) | undefined;
  /** What is to happen when they open, in its order; undefined while they are open. */
  #held: (() => void)[] | undefined;

  /** A new one. */
  async to(target: NodeSettings): Promise<NodeSettings> {
    const server = createServer({ allowHalfOpen: true }, (client) => this.#pass(client, target));
    this.#servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  }

  hold(): void {
    this.#held ??= [];
  }

  release(): number {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const go of held) go();
    return this.#heldBytes;
  }

  async caught(): Promise<void> {
    while (this.#heldBytes === 0) await new Promise<void>((resolve) => (this.#heard = resolve));
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
  }

  #pass(client: Socket, { host, port }: NodeSettings): void {
    const store = connect({ host, port, allowHalfOpen: true });
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

  /** Now, or when the doors open. */
  #when(go: () => void, bytes = 0): void {
    if (this.#held === undefined) return go();
    this.#held.push(go);
    this.#heldBytes += bytes;
    if (bytes > 0) this.#heard?.();
  }
}
