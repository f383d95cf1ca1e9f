import type { Redis } from 'ioredis';

import { freePort } from '../../scripts/services/ports.mjs';
import type { Scope } from './leftovers.ts';
import { connectRedis } from './redis-client.ts';
import { startRedis, type RedisServer } from './redis-server.ts';

const SLOTS = 16_384;

interface Member {
  readonly server: RedisServer;
  readonly busPort: number;
  /** For the test's own questions to this node. */
  readonly raw: Redis;
  readonly id: string;
}

/** A throw-away Cluster: so many primaries that share the slots, in ports that nobody else has. It is up when `start` resolves. */
export class RedisCluster implements AsyncDisposable {
  readonly members: readonly Member[];
  readonly #replicas: Member[] = [];

  private constructor(members: readonly Member[]) {
    this.members = members;
  }

  static async start(primaries = 3, scope?: Scope): Promise<RedisCluster> {
    const members = await Promise.all(Array.from({ length: primaries }, () => startMember(scope)));
    const cluster = new RedisCluster(members);
    const share = Math.ceil(SLOTS / primaries);
    for (const [index, { raw }] of members.entries()) {
      const last = Math.min((index + 1) * share, SLOTS) - 1;
      await raw.call('CLUSTER', 'ADDSLOTSRANGE', String(index * share), String(last));
      await raw.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
    }
    for (const { server, busPort } of members.slice(1)) await cluster.#meet(server, busPort);
    await cluster.settled();
    return cluster;
  }

  /** What a Cluster client starts with. */
  get addresses(): { readonly host: string; readonly port: number }[] {
    return this.members.map(({ server: { host, port } }) => ({ host, port }));
  }

  /** The primary that serves this key, as the nodes see it now. */
  async ownerOf(key: string): Promise<Member> {
    const slot = await this.slotOf(key);
    for (const member of this.members) {
      const ranges = (await member.raw.call('CLUSTER', 'SLOTS')) as [number, number, [string, number, string]][];
      const range = ranges.find(([from, to]) => from <= slot && slot <= to);
      const owner = this.members.find(({ id }) => id === range?.[2][2]);
      if (owner !== undefined) return owner;
    }
    throw new Error(`nobody serves slot ${slot}`);
  }

  async slotOf(key: string): Promise<number> {
    return Number(await this.members[0]?.raw.call('CLUSTER', 'KEYSLOT', key));
  }

  /** A command to each node. */
  async each(command: string, ...args: string[]): Promise<unknown[]> {
    return Promise.all(this.members.map(({ raw }) => raw.call(command, ...args)));
  }

  /** The slot is being moved: keys that are gone from `from` are asked for at `to`. */
  async beginMove(slot: number, from: Member, to: Member): Promise<void> {
    await to.raw.call('CLUSTER', 'SETSLOT', String(slot), 'IMPORTING', from.id);
    await from.raw.call('CLUSTER', 'SETSLOT', String(slot), 'MIGRATING', to.id);
  }

  async moveKeys(slot: number, from: Member, to: Member): Promise<void> {
    const keys = (await from.raw.call('CLUSTER', 'GETKEYSINSLOT', String(slot), '1000')) as string[];
    const { host, port } = to.server;
    await from.raw.call('MIGRATE', host, String(port), '', '0', '5000', 'KEYS', ...keys);
  }

  async endMove(slot: number, from: Member, to: Member): Promise<void> {
    const others = this.members.filter((member) => member !== from && member !== to);
    for (const { raw } of [to, from, ...others]) await raw.call('CLUSTER', 'SETSLOT', String(slot), 'NODE', to.id);
  }

  /** Adds a replica of this primary, and resolves when it has its data. */
  async addReplica(primary: Member, scope?: Scope): Promise<Member> {
    const replica = await startMember(scope);
    await this.#meet(replica.server, replica.busPort);
    this.#replicas.push(replica);
    // It must have heard of everybody and everything, or a takeover of its would be outvoted.
    await until(async () => {
      const info = String(await replica.raw.call('CLUSTER', 'INFO'));
      const epoch = Number(/cluster_current_epoch:(\d+)/.exec(info)?.[1]);
      return epoch >= this.members.length && info.includes(`cluster_slots_ok:${SLOTS}`);
    });
    await until(async () => (await replica.raw.call('CLUSTER', 'REPLICATE', primary.id).catch(() => '')) === 'OK');
    await until(async () => (await replica.raw.info('replication')).includes('master_link_status:up'));
    return replica;
  }

  /** Resolves when all nodes agree that all slots are served by somebody. */
  async settled(): Promise<void> {
    for (const { raw } of this.members) {
      await until(async () => {
        const info = String(await raw.call('CLUSTER', 'INFO'));
        return info.includes('cluster_state:ok') && info.includes(`cluster_slots_ok:${SLOTS}`);
      });
    }
  }

  async stop(): Promise<void> {
    for (const { raw, server } of [...this.members, ...this.#replicas]) {
      raw.disconnect();
      await server.stop();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #meet(server: RedisServer, busPort: number): Promise<void> {
    await this.members[0]?.raw.call('CLUSTER', 'MEET', server.host, String(server.port), String(busPort));
  }
}

async function startMember(scope: Scope | undefined): Promise<Member> {
  // By default the bus is 10,000 ports above, which is beyond the last one as often as not.
  const busPort = await freePort();
  const server = await startRedis({
    args: [
      ...['--cluster-enabled', 'yes', '--cluster-port', String(busPort), '--cluster-announce-ip', '127.0.0.1'],
      ...['--cluster-node-timeout', '2000', '--cluster-require-full-coverage', 'no', '--repl-diskless-sync-delay', '0'],
    ],
    ...(scope !== undefined && { scope }),
  });
  const raw = await connectRedis(server.url, { retryStrategy: () => 50 });
  return { server, busPort, raw, id: String(await raw.call('CLUSTER', 'MYID')) };
}

/** Asks again and again, each time after the answer. */
export async function until(ask: () => Promise<boolean>): Promise<void> {
  while (!(await ask())) await new Promise(setImmediate);
}
