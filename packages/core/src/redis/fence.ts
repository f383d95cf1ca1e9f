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
import { given, messageOf } from '../thrown.ts';
import { Bodies } from './bodies.ts';
import { isUncompiled } from './failure.ts';
import { FenceCalls, type Silence } from './fence-calls.ts';
import { isIoredis, keysOfCommand, type IoredisClient } from './ioredis.ts';
import { isNodeRedis, nodeRedisOptions, type NodeRedisClient } from './node-redis.ts';
import { fenceKey } from './keys.ts';
import type { Script, ScriptArgs } from './script.ts';
import { activateArgs, activateScript } from './scripts/fence-activate.ts';
import { bodyArgs, ofBody } from './scripts/fence-body.ts';
import { highestArgs, highestScript } from './scripts/fence-highest.ts';
import { sealArgs, sealScript } from './scripts/fence-seal.ts';
import { settleArgs } from './scripts/fence-settle.ts';
import { writeArgs, writeScript } from './scripts/fence-write.ts';
import { slotOf } from './slot.ts';
import { Transaction, wordsOf, type RedisTx } from './transaction.ts';
import { WriteNumbers, type Numbered } from './write-numbers.ts';

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

export interface RedisEvalOptions {
  /** `KEYS[1]` and so on, on a Cluster all in the slot of the fence. */
  readonly keys?: readonly string[] | undefined;
  /** `ARGV[1]` and so on. */
  readonly args?: readonly (string | number)[] | undefined;
}

/** After this an activation looks at the eviction policy again. Milliseconds. */
const POLICY_AGE_MS = 10_000;

/** Commands that reach the fence without naming its key, or turn to another database in the middle of a write. */
const WHOLE_DATABASE: ReadonlySet<string> = new Set(['FLUSHALL', 'FLUSHDB', 'SWAPDB', 'SELECT']);

/**
 * A fence for data in Redis 7.0 or later, in the database of `client`: the user's own, of ioredis (`Redis`, `Cluster`) or
 * of node-redis (`createClient`), which is neither configured nor closed. Guard and commands of a write are one script.
 *
 * Throws `ConfigError` for a client with a `keyPrefix`: give it `client.duplicate({ keyPrefix: '' })` and write keys in full.
 */
export function redisFence(client: IoredisClient | NodeRedisClient, options: RedisFenceOptions = {}): RedisFence {
  return new RedisFence(client, options);
}

export class RedisFence implements Fence<RedisTx> {
  readonly name: string;
  readonly #calls: FenceCalls;
  readonly #numbers = new WriteNumbers();
  readonly #bodies = new Bodies();
  readonly #isCluster: boolean;
  readonly #key: (resource: string) => string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
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
    this.#calls = new FenceCalls(client, clock);
    this.#isCluster = isIoredis(client) && client.isCluster === true;
    this.#key = (resource) => checkedKey(given('key', () => key(resource)));
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /**
   * Whether the server evicted nothing (`maxmemory-policy noeviction`) when it was last looked at: a fence whose key was
   * evicted admits everybody. `highest` looks each time, an activation if the last look is 10 s ago, or (ioredis) was over another connection; a
   * change in between is not seen. False before the first one, and where INFO is not permitted.
   */
  get enforcing(): boolean {
    return this.#policy === 'noeviction';
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    if (!this.#calls.isSameConnection()) this.#policyAtMs = -Infinity;
    const askPolicy = this.#clock.monotonicMs() - this.#policyAtMs >= POLICY_AGE_MS;
    const args = activateArgs(this.#key(asked.resource), asked, askPolicy);
    const reply = await this.#ask(activateScript, args, asked.resource);
    if (reply[0] !== 'admitted') throw reportRefusal(grant, this.#refusal(reply, asked.resource, asked.fencingToken));
    if (!askPolicy) return;
    this.#saw(reply[1]);
  }

  #saw(policy: unknown): void {
    this.#policy = String(policy);
    this.#policyAtMs = this.#clock.monotonicMs();
  }

  /**
   * Runs `body`, which adds commands to `tx`, and then guard and commands in one step: none of them if the grant is stale.
   * If a command fails, those before it stay and those after it are not run: `FencedCommandError` says which one.
   *
   * Carried out once, even if the client sends it again after a broken connection. If its answer was lost the fence asks
   * what became of it: it resolves if it was written (the replies are lost, see `Handle`), and otherwise rejects with
   * `FenceUnavailableError`; outcome `unknown` only if that could not be found out in time either, or another grant has
   * been admitted since.
   *
   * Rejects with `ConfigError` if a command names the fence's own key, as a key or anything else, is FLUSHALL, FLUSHDB, SWAPDB
   * or SELECT, or on a Cluster names a key in another slot than the fence's.
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
    checkCommands(key, tx.commands);
    const keys = this.#isCluster ? await keysOf(tx.commands) : [];
    this.#checkSlots('tx.call', key, keys);
    const reply = await this.#carryOut(grant, key, writeScript, (asked, numbered) =>
      writeArgs(key, asked, numbered, keys, tx.commands),
    );
    const { resource } = grantOf(grant);
    if (reply[0] === 'done') tx.settle(reply[1] as unknown[]);
    else if (reply[0] === 'again') tx.lose(this.#replyLost(resource));
    else {
      const index = Number(reply[1]) - 1;
      const command = tx.commands[index]?.slice(0, 2).join(' ');
      throw new FencedCommandError(
        resource,
        this.name,
        `command ${index + 1} of ${tx.commands.length} (${command}) failed: ${String(reply[2])}; the ${index} before it ` +
          `took effect, the ${tx.commands.length - index - 1} after it were not run`,
        index,
      );
    }
    return value;
  }

  /**
   * Runs the Lua `body` after the guard, in the same script: for a write that depends on what it reads. None of it runs if
   * the grant is stale. `KEYS` and `ARGV` in it are `keys` and `args`; what it returns comes back, as Redis converts it.
   * Its text must be a constant of the program, because the server keeps every text: values go into `args`.
   *
   * `FencedCommandError` if it raises, or returns an error: what it did before that stays. `ConfigError` if it does not
   * compile, if one of `keys` is the fence's own, or, on a Cluster, in another slot. Carried out once, as `write` is; if its
   * answer was lost, `FenceUnavailableError` has outcome `written`, `not-written` or `unknown`.
   */
  async eval<T = unknown>(grant: Grant | Holding, body: string, options: RedisEvalOptions = {}): Promise<T> {
    refuseUnknown(options, ['keys', 'args']);
    const called = this.#bodies.scriptOf(body);
    const keys = wordsOf('keys', 'a key', checkedList('keys', options.keys ?? []));
    const args = wordsOf('args', 'an argument', checkedList('args', options.args ?? []));
    const key = this.#key(grantOf(grant).resource);
    if (keys.includes(key)) throw new ConfigError('keys', `has ${key} in it, ${OWN_KEY}`);
    this.#checkSlots('keys', key, this.#isCluster ? keys : []);
    const reply = await this.#carryOut(grant, key, called, (asked, numbered) =>
      bodyArgs(called, key, asked, numbered, keys, args),
    );
    if (reply[0] === 'done') return (reply[1] ?? null) as T;
    const { resource } = grantOf(grant);
    if (reply[0] === 'again') throw this.#replyLost(resource);
    const said = ofBody(String(reply.at(-1)));
    const detail = `the Lua body failed: ${said}; what it did before that stays, Redis does not roll back`;
    throw new FencedCommandError(resource, this.name, detail);
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    const reply = await this.#ask(sealScript, sealArgs(this.#key(resource), fencingToken), resource);
    if (reply[0] !== 'sealed') throw this.#refusal(reply, resource, fencingToken);
  }

  async highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    checkQualified(resource);
    const reply = await this.#ask(highestScript, highestArgs(this.#key(resource)), resource);
    if (reply[0] === 'none') {
      this.#saw(reply[1]);
      return null;
    }
    if (reply[0] !== 'highest') throw this.#refusal(reply, resource, 0);
    this.#saw(reply[3]);
    return markOf(reply);
  }

  /**
   * Sends a write and finds out what became of it: done, failed, or again (without its replies). Rejects with everything
   * else.
   */
  async #carryOut(
    grant: Grant | Holding,
    key: string,
    called: Script,
    argsOf: (asked: Grant, numbered: Numbered) => ScriptArgs,
  ): Promise<readonly unknown[]> {
    // Nothing is awaited between this check of the lease and the send.
    const asked = grantForWrite(this, grant);
    const numbered = this.#numbers.begin(key);
    try {
      const answer = await this.#calls.runNumbered(
        called,
        argsOf(asked, numbered),
        settleArgs(key, asked, numbered),
        this.#timeoutMs,
      );
      if (answer.kind === 'silence') throw this.#failure(asked.resource, answer);
      const { reply } = answer;
      if (reply[0] === 'done' || reply[0] === 'failed') return reply;
      if (reply[0] === 'again') return this.#again(asked.resource, reply);
      if (answer.kind === 'settled') throw this.#unsettled(grant, asked, reply, answer.silence);
      const refusal = this.#refusal(reply, asked.resource, asked.fencingToken);
      if (!answer.mayBeSecond) throw reportRefusal(grant, refusal);
      // It may have got in before it was refused: with the next grant all that was known of its writes is gone.
      throw reportRefusal(grant, this.#unavailable(asked.resource, 'the connection broke', refusal));
    } finally {
      this.#numbers.end(key, numbered);
    }
  }

  /** It was carried out, and this is all that is known of it. */
  #again(resource: string, [, mark]: readonly unknown[]): readonly unknown[] {
    if (mark === '') return ['again'];
    if (mark === 'v') throw this.#unavailable(resource, 'it was given up', undefined, 'not-written');
    return ['failed', String(mark).slice(1), 'its error was lost with the connection'];
  }

  /** What the resource says of a write that had no answer and that it does not know. */
  #unsettled(grant: Grant | Holding, asked: Grant, reply: readonly unknown[], silence: Silence): unknown {
    const { resource, fencingToken } = asked;
    if (reply[0] === 'void') return this.#unavailable(resource, silence.detail, silence.cause, 'not-written');
    if (reply[0] !== 'stale') return this.#failure(resource, silence);
    const refusal = this.#refusal(reply, resource, fencingToken);
    return reportRefusal(grant, this.#unavailable(resource, silence.detail, refusal));
  }

  async #ask(called: Script, args: ScriptArgs, resource: string): Promise<readonly unknown[]> {
    const answer = await this.#calls.run(called, args, this.#timeoutMs);
    if (answer.kind === 'silence') throw this.#failure(resource, answer);
    return answer.reply;
  }

  /** A script may touch one slot; what it finds out half-way, it finds out too late. */
  #checkSlots(option: string, fence: string, keys: readonly string[]): void {
    for (const key of keys) {
      if (slotOf(key) === slotOf(fence)) continue;
      throw new ConfigError(
        option,
        `the key ${key} is in another slot of the Cluster than the fence ${fence}; give redisFence a \`key\` with the hash tag of your data`,
      );
    }
  }

  #refusal(reply: readonly unknown[], resource: string, fencingToken: number): Error {
    if (reply[0] === 'stale') {
      return new StaleTokenError(resource, { fence: this.name, fencingToken, highest: markOf(reply) });
    }
    if (reply[0] === 'range') return new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
    const key = this.#key(resource);
    if (reply[0] !== 'foreign') return this.#unavailable(resource, `${key} gave no usable answer`);
    const detail = `${key} holds a ${String(reply[1])} that is no fence; remove it, or give redisFence another \`key\``;
    return this.#unavailable(resource, detail, undefined, 'not-written');
  }

  #failure(resource: string, { detail, cause, isRefused }: Silence): Error {
    if (isUncompiled(cause)) return new ConfigError('body', `does not compile: ${ofBody(messageOf(cause))}`, cause);
    return this.#unavailable(resource, detail, cause, isRefused ? 'not-written' : 'unknown');
  }

  #replyLost(resource: string): FenceUnavailableError {
    return this.#unavailable(resource, 'the connection broke', undefined, 'written');
  }

  #unavailable(
    resource: string,
    detail: string,
    cause?: unknown,
    outcome?: FenceUnavailableError['outcome'],
  ): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.name, detail, cause, outcome);
  }
}

function checkedKey(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key;
  throw new ConfigError('key', `gave ${show(key)}: must give the name of a key`);
}

const OWN_KEY = "the fence's own key, which only the fence may touch: whoever changes it lets stale grants in";

/** Each word of a command may be a key. */
function checkCommands(key: string, commands: readonly string[][]): void {
  for (const words of commands) {
    const [name = ''] = words;
    if (words.includes(key)) throw new ConfigError('tx.call', `${name} names ${key}, ${OWN_KEY}`);
    if (!WHOLE_DATABASE.has(name.toUpperCase())) continue;
    throw new ConfigError(
      'tx.call',
      `${name} is not for a fenced write: it reaches beyond the data that the fence guards`,
    );
  }
}

async function keysOf(commands: readonly string[][]): Promise<string[]> {
  const keys = new Set<string>();
  for (const [name = '', ...args] of commands) for (const key of await keysOfCommand(name, args)) keys.add(key);
  return [...keys];
}

function checkedList(option: string, list: unknown): readonly unknown[] {
  if (Array.isArray(list)) return list;
  throw new ConfigError(option, `is ${show(list)}: must be a list`);
}

function markOf(reply: readonly unknown[]): { readonly fencingToken: number; readonly leaseId: string | null } {
  const leaseId = String(reply[2]);
  return { fencingToken: Number(reply[1]), leaseId: leaseId === '' ? null : leaseId };
}
