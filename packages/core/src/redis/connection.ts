import type { Clock } from '../clock.ts';
import { LeaseholdError, StoreUnavailableError } from '../errors.ts';
import type { LeaseStore, StoreCall } from '../store/store.ts';
import { ownClient, type OwnClient, type RedisSource, type Send } from './client.ts';
import { Deadlines, type Due } from '../deadlines.ts';
import {
  authFailure,
  failureOf,
  isAuthFailure,
  isNoScript,
  isReadOnly,
  isSelectFailure,
  withoutCommand,
} from './failure.ts';
import { probe } from './probe.ts';
import { withText, type Script, type ScriptArgs } from './script.ts';
import { Sent } from './sent.ts';
import { ServerAge } from './server-age.ts';

/** Turns a reply into what the caller asked for; throws a `LeaseholdError`, or anything else for a reply that is none. */
export type Decode<Request, Reply> = (reply: unknown, args: ScriptArgs, request: Request) => Reply;

/** How long to wait before asking a server again that is loading its data. */
const LOADING_PAUSE_MS = 100;

/**
 * - `idle`: no client; the next call makes one. Also after the server refused us, so that a later call tries again.
 * - `opening`: not ready yet for the first time; calls wait.
 * - `ready`: calls are sent.
 * - `down`: was ready, and the client is reconnecting; calls fail at once, their callers come back.
 */
type State = 'idle' | 'opening' | 'ready' | 'down' | 'closed';

interface Opening {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: LeaseholdError) => void;
}

/**
 * One connection of our own: made on first use, checked before it is used, with a deadline for every call. It sends
 * nothing twice.
 */
export class RedisConnection {
  readonly #source: RedisSource;
  readonly #where: string;
  readonly #connectTimeoutMs: number;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #server: ServerAge;
  readonly #reconnected = new Set<() => void>();
  #state: State = 'idle';
  #own: OwnClient | undefined;
  #opening: Opening | undefined;
  /** Counts physical connections, so that what belongs to an earlier one is known. */
  #epoch = 0;
  /** It was told to give its socket up, and has not done so yet. */
  #isDropping = false;
  #lastError: unknown;
  /** Whether somebody was told that the store is out of reach. */
  #wasMissed = false;
  /** When the first of the calls was sent that expired since the last reply. */
  #silentSinceMs: number | undefined;

  /** `where` is for messages. */
  constructor(
    source: RedisSource,
    where: string,
    options: { readonly connectTimeoutMs: number; readonly clock: Clock },
  ) {
    this.#source = source;
    this.#where = where;
    this.#connectTimeoutMs = options.connectTimeoutMs;
    this.#clock = options.clock;
    this.#deadlines = new Deadlines(options.clock);
    this.#server = new ServerAge(options.clock);
  }

  /** Runs a script: sends it, at most once more with its text, and decodes the reply. */
  run<Request, Reply>(
    called: Script,
    args: ScriptArgs,
    call: StoreCall,
    decode: Decode<Request, Reply>,
    request: Request,
  ): Promise<Reply> {
    if (this.#state !== 'ready') return this.#runLater(called, args, call, decode, request);
    return new Promise((resolve, reject) => {
      const sent = new Sent(this, called, args, call, (reply) => resolve(decode(reply, args, request)), reject);
      this.#send(sent, 'evalsha', args);
    });
  }

  /** Whether it leads to a Cluster, where one call must not touch two slots. Undefined before the first call. */
  get isCluster(): boolean | undefined {
    return this.#own?.isCluster;
  }

  refuseIfClosed(): void {
    if (this.#state === 'closed') throw this.#unavailable('is closed');
  }

  /** Connects if need be, and gives the client for what is no script. */
  async client(): Promise<OwnClient> {
    await this.ready();
    if (this.#own === undefined) throw this.#unavailable('cannot be reached; reconnecting', this.#lastError);
    return this.#own;
  }

  /** A command that is no script and changes nothing, by a way that `client()` gave. */
  ask(send: Send, command: string, args: string[], call: StoreCall): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const due: Due = {
        slot: -1,
        expire: () => reject(this.#unavailable(`has not answered ${command} within ${Math.round(call.timeoutMs)} ms`)),
      };
      call.sent?.();
      this.#deadlines.put(due, call.timeoutMs);
      send(command, args).then(
        (reply) => (this.#deadlines.remove(due), resolve(reply)),
        (error: unknown) => (this.#deadlines.remove(due), reject(failureOf(this.#where, command, error))),
      );
    });
  }

  /** Of the server, or undefined before the first connection. */
  get server(): LeaseStore['server'] {
    return this.#server.told;
  }

  /** Waits until calls can be sent, like a call would. */
  ready(): Promise<void> {
    if (this.#state === 'ready') return Promise.resolve();
    if (this.#state === 'closed') return Promise.reject(this.#unavailable('is closed'));
    if (this.#state === 'down') {
      return Promise.reject(this.#unavailable('cannot be reached; reconnecting', this.#lastError));
    }
    return (this.#opening ?? this.#open()).promise;
  }

  onReconnect(listener: () => void): () => void {
    const once = (): void => listener();
    this.#reconnected.add(once);
    return () => void this.#reconnected.delete(once);
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#opening?.reject(this.#unavailable('is closed'));
    this.#deadlines.expireAll();
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined) await ended(own, this.#clock);
  }

  // --- calls

  async #runLater<Request, Reply>(
    called: Script,
    args: ScriptArgs,
    call: StoreCall,
    decode: Decode<Request, Reply>,
    request: Request,
  ): Promise<Reply> {
    await this.ready();
    return this.run(called, args, call, decode, request);
  }

  #send(sent: Sent, command: string, args: ScriptArgs): void {
    const own = this.#own;
    if (this.#state !== 'ready' || own === undefined) {
      sent.fail(this.#unavailable('cannot be reached; reconnecting', this.#lastError));
      return;
    }
    sent.call.sent?.();
    if (sent.slot < 0) {
      sent.sentMs = this.#deadlines.put(sent, sent.call.timeoutMs);
    }
    own.send(command, args).then(
      (reply) => this.#answered(sent, reply),
      (error: unknown) => this.#failed(sent, error),
    );
  }

  #answered(sent: Sent, reply: unknown): void {
    this.#silentSinceMs = undefined;
    if (sent.settled) return;
    this.#deadlines.remove(sent);
    try {
      sent.answer(reply);
    } catch (error) {
      if (error instanceof LeaseholdError) {
        sent.fail(error);
        return;
      }
      // An answer to something else: replies and requests of this connection no longer go together.
      sent.fail(this.#unavailable(`gave no usable answer to ${sent.called.name}`, error, true));
      this.#drop(error);
    }
  }

  #failed(sent: Sent, error: unknown): void {
    if (sent.settled) return;
    if (isNoScript(error) && !sent.withText) {
      sent.withText = true;
      this.#send(sent, 'eval', withText(sent.called, sent.args));
      return;
    }
    this.#deadlines.remove(sent);
    sent.fail(failureOf(this.#where, sent.called.name, error));
    // A replica, perhaps the former primary: connecting again finds the new one.
    if (isReadOnly(error)) this.#drop(error);
  }

  /** Of a call that has had no answer in time. */
  expired(sent: Sent): void {
    const closed = this.#state === 'closed';
    sent.fail(
      this.#unavailable(
        closed ? 'is closed' : `has not answered ${sent.called.name} within ${Math.round(sent.call.timeoutMs)} ms`,
        undefined,
        true,
      ),
    );
    if (closed) return;
    this.#silentSinceMs ??= sent.sentMs;
    // A network that forgot us says nothing, and TCP may take a minute to try again after it has healed.
    if (this.#clock.monotonicMs() - this.#silentSinceMs >= this.#connectTimeoutMs) {
      this.#drop(new Error('no reply to anything for too long'));
    }
  }

  // --- the connection

  #open(): Opening {
    let resolve!: () => void;
    let reject!: (error: LeaseholdError) => void;
    const promise = new Promise<void>((onReady, onError) => {
      resolve = onReady;
      reject = onError;
    });
    const timer = this.#clock.setTimer(
      this.#connectTimeoutMs,
      () =>
        this.#giveUp(this.#unavailable(`could not be reached within ${this.#connectTimeoutMs} ms`, this.#lastError)),
      { ref: true },
    );
    const end = (): void => {
      timer.clear();
      this.#opening = undefined;
    };
    this.#opening = {
      promise,
      resolve: () => (end(), resolve()),
      reject: (error) => (end(), reject(error)),
    };
    if (this.#state === 'idle') {
      this.#state = 'opening';
      void this.#connect();
    }
    return this.#opening;
  }

  async #connect(): Promise<void> {
    let own: OwnClient;
    try {
      own = await ownClient(this.#source, this.#connectTimeoutMs);
    } catch (error) {
      if (this.#state !== 'closed') {
        this.#state = 'idle';
        this.#giveUp(error instanceof LeaseholdError ? error : this.#unavailable('cannot be connected to', error));
      }
      return;
    }
    if (this.#state === 'closed') return;
    this.#own = own;
    this.#lastError = undefined;
    this.#listen(own);
    // Errors of the socket come as events as well, and say more.
    own.connect().catch((error: unknown) => (this.#lastError ??= error));
  }

  #listen(own: OwnClient): void {
    let handshake: { clear(): void } | undefined;
    const mine = (listener: () => void) => (): void => {
      if (this.#own === own) listener();
    };
    own.on('error', (error: unknown) => this.#erred(own, error));
    own.on('node error', (error: unknown) => this.#erred(own, error));
    own.on(
      'connect',
      mine(() => {
        // The client waits for ever for a server that accepts and then says nothing.
        handshake?.clear();
        handshake = this.#clock.setTimer(
          this.#connectTimeoutMs,
          mine(() => this.#drop(new Error('connected, but no answer to the first commands'))),
          { ref: false },
        );
      }),
    );
    own.on(
      'ready',
      mine(() => {
        this.#isDropping = false;
        void this.#check(own, ++this.#epoch, () => handshake?.clear());
      }),
    );
    own.on('close', () => {
      handshake?.clear();
      mine(() => {
        this.#isDropping = false;
        this.#closed();
      })();
    });
  }

  /** Connected and signed in: is it a server that can serve us? */
  async #check(own: OwnClient, epoch: number, settled: () => void): Promise<void> {
    let identity: string;
    try {
      identity = await probe(own, this.#where);
    } catch (error) {
      if (this.#own !== own || this.#epoch !== epoch) return;
      this.#lastError = error;
      if (error instanceof LeaseholdError) this.#refuse(error);
      else if (isAuthFailure(error)) this.#refuse(authFailure(this.#where, error));
      else {
        const again = (): void => {
          if (this.#epoch === epoch && this.#own === own) void this.#check(own, epoch, settled);
        };
        this.#clock.setTimer(LOADING_PAUSE_MS, again, { ref: false });
      }
      return;
    }
    if (this.#own !== own || this.#epoch !== epoch) return;
    settled();
    this.#server.met(identity, own.isCluster);
    this.#state = 'ready';
    this.#silentSinceMs = undefined;
    this.#lastError = undefined;
    const wasMissed = this.#wasMissed;
    this.#wasMissed = false;
    this.#opening?.resolve();
    if (wasMissed) for (const listener of this.#reconnected) listener();
  }

  #erred(own: OwnClient, error: unknown): void {
    if (this.#own !== own) return;
    this.#lastError = error;
    const node = (error as { readonly lastNodeError?: unknown } | null)?.lastNodeError;
    const refusal = isAuthFailure(error) ? error : isAuthFailure(node) ? node : undefined;
    if (refusal !== undefined) this.#refuse(authFailure(this.#where, refusal));
    // ioredis would go on with database 0.
    else if (isSelectFailure(error)) this.#refuse(this.#unavailable(`refused the database: ${error.message}`, error));
  }

  /** Trying again by ourselves would not help and might lock the user out. The next call does. */
  #refuse(error: LeaseholdError): void {
    const own = this.#own;
    this.#own = undefined;
    this.#epoch++;
    this.#state = 'idle';
    own?.disconnect();
    this.#giveUp(error);
  }

  #giveUp(error: LeaseholdError): void {
    this.#wasMissed = true;
    this.#opening?.reject(error);
  }

  #closed(): void {
    this.#epoch++;
    if (this.#state !== 'ready') return;
    this.#state = 'down';
    this.#wasMissed = true;
  }

  /** Gives this physical connection up; the client makes another one. */
  #drop(error: unknown): void {
    if (this.#own === undefined || this.#state === 'closed' || this.#isDropping) return;
    // Dozens of calls may expire at once, on one socket.
    this.#isDropping = true;
    this.#lastError = error;
    this.#closed();
    this.#own.disconnect(true);
  }

  #unavailable(detail: string, cause?: unknown, mayHaveRun = false): StoreUnavailableError {
    return new StoreUnavailableError(`${this.#where} ${detail}`, { mayHaveRun, cause: withoutCommand(cause) });
  }
}

/** Disconnects and waits for the end, which the client does not always announce. */
function ended(own: OwnClient, clock: Clock): Promise<void> {
  const open = own.isOpen();
  return new Promise((resolve) => {
    if (open) {
      const timer = clock.setTimer(1000, resolve, { ref: true });
      own.on('end', () => {
        timer.clear();
        resolve();
      });
    }
    own.disconnect();
    if (!open) resolve();
  });
}
