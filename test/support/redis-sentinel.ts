import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { environmentOf, find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder, spawnGuarded } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { ask, freePort } from '../../scripts/services/ports.mjs';
import { end } from '../../scripts/services/redis.mjs';
import { closed, opened, type Scope } from './leftovers.ts';
import { connectRedis } from './redis-client.ts';
import { startRedis, type RedisServer } from './redis-server.ts';
import { TcpProxy } from './proxy.ts';

/** What the sentinel calls the group. */
const GROUP = 'primary';

/** A primary, a replica that gets its data through a proxy, and a sentinel that needs no other to agree with it. */
export class SentinelGroup implements AsyncDisposable {
  readonly primary: RedisServer;
  readonly replica: RedisServer;
  /** Between the two. */
  readonly link: TcpProxy;
  readonly port: number;
  readonly #stopSentinel: () => Promise<void>;

  private constructor(
    servers: { readonly primary: RedisServer; readonly replica: RedisServer; readonly link: TcpProxy },
    port: number,
    stopSentinel: () => Promise<void>,
  ) {
    this.primary = servers.primary;
    this.replica = servers.replica;
    this.link = servers.link;
    this.port = port;
    this.#stopSentinel = stopSentinel;
  }

  /** Everything is in place when it resolves: the replica has the data, the sentinel knows both. */
  static async start(scope?: Scope): Promise<SentinelGroup> {
    const options = { args: ['--repl-diskless-sync-delay', '0'], ...(scope !== undefined && { scope }) };
    const [primary, replica] = await Promise.all([startRedis(options), startRedis(options)]);
    const link = await TcpProxy.start({ port: primary.port }, scope);
    await using raw = await connectRedis(replica.url);
    await raw.replicaof(link.host, link.port);
    while (!(await raw.info('replication')).includes('master_link_status:up')) await new Promise(setImmediate);
    const { port, stop } = await startSentinel(primary, scope);
    const group = new SentinelGroup({ primary, replica, link }, port, stop);
    await using sentinel = await connectRedis(group.url);
    while (String(await sentinel.call('SENTINEL', 'REPLICAS', GROUP)).includes(`${replica.port}`) === false) {
      await new Promise(setImmediate);
    }
    return group;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Options of ioredis. */
  get connection() {
    return { sentinels: [{ host: '127.0.0.1', port: this.port }], name: GROUP };
  }

  /** Resolves when the replica is the primary, and the sentinel says so. */
  async failedOver(): Promise<void> {
    await using sentinel = await connectRedis(this.url);
    const port = String(this.replica.port);
    const said = async () => (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', GROUP)) as string[];
    while ((await said())[1] !== port) await new Promise(setImmediate);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stopSentinel();
    await this.link.close();
    await this.replica.stop();
    await this.primary.stop();
  }
}

async function startSentinel(primary: RedisServer, scope: Scope | undefined) {
  const { path: binary } = find('redis', thisMachine);
  if (binary === null) throw new Error('no redis-server');
  const [dir, port] = [guardedFolder('sentinel'), await freePort()];
  const config = join(dir, 'sentinel.conf');
  writeFileSync(
    config,
    [
      ...[`port ${port}`, 'bind 127.0.0.1', `dir ${dir}`, `sentinel monitor ${GROUP} 127.0.0.1 ${primary.port} 1`],
      ...[`sentinel down-after-milliseconds ${GROUP} 300`, `sentinel failover-timeout ${GROUP} 2000`],
    ].join('\n'),
  );
  const log = openSync(join(dir, 'sentinel.log'), 'a');
  // The same program; on Debian by yet another name, so it is told what it is.
  const child = spawnGuarded(binary, [config, '--sentinel'], {
    argv0: 'redis-server',
    stdio: ['ignore', log, log],
    cwd: dir,
    env: environmentOf(binary),
  });
  closeSync(log);
  child.unref();
  const leftover = { what: `a sentinel on port ${port}`, end: () => stop() };
  const stop = async (): Promise<void> => {
    closed(leftover);
    await end(child, 'SIGTERM', 5000);
    removeFolder(dir);
  };
  opened(leftover, scope);
  while ((await ask(port, 'PING\r\n')) === null) {
    if (child.exitCode !== null) throw new Error('the sentinel did not start');
  }
  return { port, stop };
}
