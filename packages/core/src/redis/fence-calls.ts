import type { Clock } from '../clock.ts';
import { messageOf } from '../thrown.ts';
import type { Send } from './client.ts';
import { Deadlines, type Due } from '../deadlines.ts';
import { isErrorReply, isNoScript, isRefusal, isUncompiled, isUnsent, withoutCommand } from './failure.ts';
import { isIoredis, type IoredisClient, type IoredisCluster } from './ioredis.ts';
import type { NodeRedisClient } from './node-redis.ts';
import { withText, type Script, type ScriptArgs } from './script.ts';
import { settleScript } from './scripts/fence-settle.ts';

/** A call without an answer. */
export interface Silence {
  readonly kind: 'silence';
  readonly detail: string;
  readonly cause?: unknown;
  /** Whether it certainly was not carried out, and never will be. */
  readonly isRefused: boolean;
}

/** What became of a call. */
export type Answer =
  | {
      readonly kind: 'reply';
      readonly reply: readonly unknown[];
      /** Whether the request may have been carried out before, on a connection that broke, and this is the reply to its copy. */
      readonly mayBeSecond: boolean;
    }
  /** There was no answer, and this is what the resource says of it. */
  | { readonly kind: 'settled'; readonly reply: readonly unknown[]; readonly silence: Silence }
  | Silence;

/** After this part of its time a write without an answer is asked about: what is asked later may come too late. */
const LATE = 0.75;
/** So often a waiting write looks whether its connection is another by now, in milliseconds. ioredis need not say so. */
const LOOK_MS = 200;

/** The states of an ioredis client in which it has no connection and is not making one. */
const OFFLINE: ReadonlySet<string> = new Set(['wait', 'reconnecting', 'disconnecting', 'close', 'end']);

/** The calls of a fence over the user's client. Each settles by its deadline, and none rejects. */
export class FenceCalls {
  readonly #send: Send;
  /** The connections there are; others after a reconnection. */
  readonly #connections: () => readonly unknown[];
  /** Whether the client sends nothing before it has another connection, and whether it will never have one. */
  readonly #isOffline: () => boolean;
  readonly #isClosed: () => boolean;
  /** It sends again by itself, in an order of its own. */
  readonly #isCluster: boolean;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  #lastSeen: readonly unknown[] | undefined;

  constructor(client: IoredisClient | NodeRedisClient, clock: Clock) {
    this.#send = senderOf(client);
    this.#connections = () => connectionsOf(client);
    this.#isOffline = () => isIoredis(client) && OFFLINE.has(client.status);
    this.#isClosed = () => (isIoredis(client) ? client.status === 'end' : !client.isOpen);
    this.#isCluster = isIoredis(client) && client.isCluster === true;
    this.#clock = clock;
    this.#deadlines = new Deadlines(clock);
  }

  /** Tells whether there has been no other connection since it was called before; ioredis only, see `connectionsOf`. */
  isSameConnection(): boolean {
    const before = this.#lastSeen;
    this.#lastSeen = this.#connections();
    return before !== undefined && !this.#haveChanged(before);
  }

  run(called: Script, args: ScriptArgs, timeoutMs: number): Promise<Exclude<Answer, { readonly kind: 'settled' }>> {
    return new Promise((resolve) => {
      const silent = (silence: Omit<Silence, 'kind'>): void => resolve({ kind: 'silence', ...silence });
      const due: Due = {
        slot: -1,
        expire: () => silent({ detail: `no answer to ${called.name} in time`, isRefused: false }),
      };
      this.#deadlines.put(due, timeoutMs);
      const connections = this.#connections();
      const wasOffline = this.#isOffline();
      // What ioredis sent once more after a reconnection may have been carried out the first time.
      const mayBeSecond = (): boolean => this.#haveChanged(connections);
      const failed = (error: unknown): void => {
        this.#deadlines.remove(due);
        const said = messageOf(error);
        const detail = isErrorReply(error) ? `${called.name} was refused: ${said}` : `was lost: ${said}`;
        const isUnsentNow = isUnsent(error) || (wasOffline && said === 'Connection is closed.');
        const isRefused = isUncompiled(error) || (!mayBeSecond() && (isUnsentNow || isRefusal(error)));
        silent({ detail, cause: withoutCommand(error), isRefused });
      };
      const answered = (reply: unknown): void => {
        this.#deadlines.remove(due);
        resolve({ kind: 'reply', reply: Array.isArray(reply) ? reply : [], mayBeSecond: mayBeSecond() });
      };
      this.#send('evalsha', args).then(answered, (error: unknown) => {
        if (!isNoScript(error)) failed(error);
        else this.#send('eval', withText(called, args)).then(answered, failed);
      });
    });
  }

  /** As `run`, for a write with a number. If its answer is lost or late, the resource is asked what became of it. */
  runNumbered(called: Script, args: ScriptArgs, settleArgs: ScriptArgs, timeoutMs: number): Promise<Answer> {
    const beganMs = this.#clock.monotonicMs();
    const connections = this.#connections();
    return new Promise((resolve) => {
      let silence: Silence = { kind: 'silence', detail: `no answer to ${called.name} in time`, isRefused: false };
      let isAsked = false;
      const leftMs = (): number => timeoutMs - (this.#clock.monotonicMs() - beganMs);
      const ask = async (): Promise<void> => {
        if (isAsked) return;
        isAsked = true;
        while (leftMs() > 0) {
          const answer = await this.run(settleScript, settleArgs, leftMs());
          if (answer.kind === 'reply') resolve({ kind: 'settled', reply: answer.reply, silence });
          if (answer.kind === 'reply' || this.#isClosed()) break;
          // The question was lost as well.
          const waitMs = Math.min(LOOK_MS, leftMs());
          await new Promise<void>((again) => this.#deadlines.put({ slot: -1, expire: again }, waitMs));
        }
        resolve(silence);
      };
      const look: Due = {
        slot: -1,
        expire: () => {
          const lateMs = leftMs() - timeoutMs * (1 - LATE);
          if (lateMs <= 0 || (!this.#isCluster && this.#haveChanged(connections))) void ask();
          else this.#deadlines.put(look, Math.min(LOOK_MS, lateMs));
        },
      };
      this.#deadlines.put(look, Math.min(LOOK_MS, timeoutMs * LATE));
      void this.run(called, args, timeoutMs).then((answer) => {
        this.#deadlines.remove(look);
        if (answer.kind === 'reply' || answer.isRefused) {
          resolve(answer);
          return;
        }
        silence = answer;
        void ask();
      });
    });
  }

  #haveChanged(connections: readonly unknown[]): boolean {
    const now = this.#connections();
    return now.length !== connections.length || now.some((each, index) => each !== connections[index]);
  }
}

function senderOf(client: IoredisClient | NodeRedisClient): Send {
  if (isIoredis(client)) return async (command, args) => client.call(command, ...args);
  const plain = client.withTypeMapping?.({}) ?? client;
  return async (command, args) => plain.sendCommand([command, ...args]);
}

/** node-redis sends nothing twice, so that all its connections are one to us. */
function connectionsOf(client: IoredisClient | NodeRedisClient): readonly unknown[] {
  if (!isIoredis(client)) return [client];
  if (client.isCluster === true) return (client as IoredisCluster).nodes('master').map(({ stream }) => stream);
  return [client.stream];
}
