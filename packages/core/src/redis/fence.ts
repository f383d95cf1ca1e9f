import { systemClock, type Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import {
  ConfigError,
  FencedCommandError,
  FenceUnavailableError,
  StaleTokenError,
  TokenOutOfRangeError,
} from '../errors.ts';
import {
  checkBody,
  checkQualified,
  checkToken,
  grantForWrite,
  grantOf,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import type { Send } from './client.ts';
import { isIoredis, keysOfCommand, type IoredisClient } from './ioredis.ts';
import { isNodeRedis, nodeRedisOptions, type NodeRedisClient } from './node-redis.ts';
import { Deadlines, type Due } from './deadlines.ts';
import { isErrorReply, isNoScript, withoutCommand } from './failure.ts';
import { fenceKey } from './keys.ts';
import { withText, type Script, type ScriptArgs } from './script.ts';
import { activateArgs, activateScript } from './scripts/fence-activate.ts';
import { highestArgs, highestScript } from './scripts/fence-highest.ts';
import { sealArgs, sealScript } from './scripts/fence-seal.ts';
import { writeArgs, writeScript } from './scripts/fence-write.ts';
import { slotOf } from './slot.ts';
import { Transaction, type RedisTx } from './transaction.ts';

export interface RedisFenceOptions {
  /** Unique among the fences of one acquisition. Default `redis`. */
  readonly name?: string | undefined;
  /**
   * The fence's key for a qualified name. Default `leasehold-fence:{<name>}`. On a Cluster it must be in the slot of the
   * data: `(resource) => 'leasehold-fence:{customer:42}'` for keys such as `{customer:42}:balance`.
   */
  readonly key?: ((resource: string) => string) | undefined;
  /** Within which every call settles. @default '5s' */
  readonly timeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/** How often the eviction policy is looked at again, by an activation. Milliseconds. */
const POLICY_AGE_MS = 60_000;

/**
 * A fence for data in Redis 7.0 or later, in the database of `client`: the user's own, of ioredis (`Redis`, `Cluster`) or
 * of node-redis (`createClient`), which is neither configured nor closed. Guard and commands of a write are one script.
 *
 * A client that sends again what a broken connection did not answer (ioredis does by default) may carry a write out
 * twice, like any command of the same client. Never after a later grant was admitted.
 *
 * Throws `ConfigError` for a client with a `keyPrefix`: give it `client.duplicate({ keyPrefix: '' })` and write keys in full.
 */
export function redisFence(client: IoredisClient | NodeRedisClient, options: RedisFenceOptions = {}): RedisFence {
  return new RedisFence(client, options);
}

export class RedisFence implements Fence<RedisTx> {
  readonly name: string;
  readonly #send: Send;
  readonly #isCluster: boolean;
  readonly #key: (resource: string) => string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  #policy = '';
  #policyAtMs = -Infinity;

  constructor(client: IoredisClient | NodeRedisClient, options: RedisFenceOptions = {}) {
    refuseUnknown(options, ['name', 'key', 'timeout', 'clock']);
    const { name = 'redis', key = fenceKey, timeout = '5s', clock = systemClock } = options;
    if (typeof key !== 'function')
      throw new ConfigError('key', `is ${show(key)}: must be a function of the qualified name`);
    const timeoutMs = parseDuration('timeout', timeout);
    if (!isIoredis(client) && !isNodeRedis(client)) {
      throw new ConfigError(
        'client',
        'must be a Redis or Cluster of ioredis, or what createClient of node-redis returns',
      );
    }
    const { keyPrefix = '' } = isIoredis(client) ? client.options : nodeRedisOptions(client);
    if (keyPrefix !== '') {
      throw new ConfigError('client', "has a keyPrefix; use client.duplicate({ keyPrefix: '' }) and keys in full");
    }
    if (timeoutMs === 0 || timeoutMs === Infinity)
      throw new ConfigError('timeout', `${timeout} gives no call a deadline`);
    this.name = name;
    this.#send = senderOf(client);
    this.#isCluster = isIoredis(client) && client.isCluster === true;
    this.#key = (resource) => checkedKey(key(resource));
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    this.#deadlines = new Deadlines(clock);
  }

  /**
   * False until an activation has learned that the server evicts nothing (`maxmemory-policy noeviction`): a fence whose
   * key was evicted admits everybody. Stays false where INFO is not permitted.
   */
  get enforcing(): boolean {
    return this.#policy === 'noeviction';
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    const askPolicy = this.#clock.monotonicMs() - this.#policyAtMs >= POLICY_AGE_MS;
    const args = activateArgs(this.#key(asked.resource), asked, askPolicy);
    const reply = await this.#run(activateScript, args, asked.resource);
    if (reply[0] !== 'admitted') throw reportRefusal(grant, this.#refusal(reply, asked.resource, asked.fencingToken));
    if (!askPolicy) return;
    this.#policy = String(reply[1]);
    this.#policyAtMs = this.#clock.monotonicMs();
  }

  /**
   * Runs `body`, which adds commands to `tx`, and then guard and commands in one step: none of them if the grant is stale.
   * If a command fails, those before it stay and those after it are not run: `FencedCommandError` says which one.
   *
   * Rejects with `ConfigError` if a command names a key in another slot than the fence's, on a Cluster.
   */
  async write<T>(grant: Grant | Holding, body: (tx: RedisTx) => T | Promise<T>): Promise<T> {
    checkBody(body);
    grantForWrite(this, grant);
    const tx = new Transaction();
    const value = await tx.run(body);
    if (tx.commands.length === 0) {
      throw new ConfigError(
        'body',
        'added no command to tx; write with tx.call, not with the client, or use activate to ask the fence alone',
      );
    }
    const key = this.#key(grantOf(grant).resource);
    const keys = this.#isCluster ? await this.#keysInSlot(key, tx.commands) : [];
    // Nothing is awaited between the check of the lease and the send.
    const asked = grantForWrite(this, grant);
    const reply = await this.#run(writeScript, writeArgs(key, asked, keys, tx.commands), asked.resource);
    if (reply[0] === 'failed')
      throw new FencedCommandError(asked.resource, this.name, tx.commands, Number(reply[1]) - 1, String(reply[2]));
    if (reply[0] !== 'done') throw reportRefusal(grant, this.#refusal(reply, asked.resource, asked.fencingToken));
    tx.settle(reply[1] as unknown[]);
    return value;
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    const reply = await this.#run(sealScript, sealArgs(this.#key(resource), fencingToken), resource);
    if (reply[0] !== 'sealed') throw this.#refusal(reply, resource, fencingToken);
  }

  async highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    checkQualified(resource);
    const reply = await this.#run(highestScript, highestArgs(this.#key(resource)), resource);
    if (reply[0] === 'none') return null;
    if (reply[0] !== 'highest') throw this.#refusal(reply, resource, 0);
    return markOf(reply);
  }

  /** A script may touch one slot; what it finds out half-way, it finds out too late. */
  async #keysInSlot(fence: string, commands: readonly string[][]): Promise<string[]> {
    const keys = new Set<string>();
    for (const [name = '', ...args] of commands) for (const key of await keysOfCommand(name, args)) keys.add(key);
    for (const key of keys) {
      if (slotOf(key) === slotOf(fence)) continue;
      throw new ConfigError(
        'tx.call',
        `the key ${key} is in another slot of the Cluster than the fence ${fence}; give redisFence a \`key\` with the hash tag of your data`,
      );
    }
    return [...keys];
  }

  #refusal(reply: readonly unknown[], resource: string, fencingToken: number): Error {
    if (reply[0] === 'stale') {
      return new StaleTokenError(resource, { fence: this.name, fencingToken, highest: markOf(reply) });
    }
    if (reply[0] === 'range') return new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
    const found = reply[0] === 'foreign' ? `holds a ${String(reply[1])} that is no fence` : 'gave no usable answer';
    return this.#unavailable(resource, `${this.#key(resource)} ${found}`);
  }

  #run(called: Script, args: ScriptArgs, resource: string): Promise<readonly unknown[]> {
    return new Promise((resolve, reject) => {
      const due: Due = {
        slot: -1,
        expire: () => reject(this.#unavailable(resource, `no answer to ${called.name} within ${this.#timeoutMs} ms`)),
      };
      this.#deadlines.put(due, this.#timeoutMs);
      const failed = (error: unknown): void => {
        this.#deadlines.remove(due);
        const said = error instanceof Error ? error.message : String(error);
        const detail = isErrorReply(error) ? `${called.name} was refused: ${said}` : `was lost: ${said}`;
        reject(this.#unavailable(resource, detail, withoutCommand(error)));
      };
      const answered = (reply: unknown): void => {
        this.#deadlines.remove(due);
        resolve(Array.isArray(reply) ? reply : []);
      };
      this.#send('evalsha', args).then(answered, (error: unknown) => {
        if (!isNoScript(error)) failed(error);
        else this.#send('eval', withText(called, args)).then(answered, failed);
      });
    });
  }

  #unavailable(resource: string, detail: string, cause?: unknown): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.name, detail, cause);
  }
}

function checkedKey(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key;
  throw new ConfigError('key', `gave ${show(key)}: must give the name of a key`);
}

function senderOf(client: IoredisClient | NodeRedisClient): Send {
  if (isIoredis(client)) return (command, args) => client.call(command, ...args);
  const plain = client.withTypeMapping?.({}) ?? client;
  return (command, args) => plain.sendCommand([command, ...args]);
}

function markOf(reply: readonly unknown[]): { readonly fencingToken: number; readonly leaseId: string | null } {
  const leaseId = String(reply[2]);
  return { fencingToken: Number(reply[1]), leaseId: leaseId === '' ? null : leaseId };
}
