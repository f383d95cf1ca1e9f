import type { Clock, Timer } from '../clock.ts';
import { LeaseholdError, StoreUnavailableError } from '../errors.ts';
import type { Ear } from './client.ts';
import type { RedisConnection } from './connection.ts';
import { authFailure, isAuthFailure } from './failure.ts';
import { retryDelayMs } from './ioredis.ts';

type Hear = (message: string) => void;

interface Channel {
  readonly listeners: Set<Hear>;
  /** Those who are to be told once the server has confirmed that it will send us this channel's messages. */
  readonly waiting: Set<{ readonly resolve: () => void; readonly reject: (error: LeaseholdError) => void }>;
  live: boolean;
}

/** How often a connection that says nothing is asked whether it is still there. */
const PING_EVERY_MS = 15_000;

/**
 * All channels of a store, on one connection beside that of its commands: made for the first listener, made again when it
 * is lost. It follows the connection of the commands, which alone decides whether a server may be asked again.
 */
export class RedisSubscriber {
  readonly #connection: RedisConnection;
  readonly #where: string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #channels = new Map<string, Channel>();
  readonly #forget: () => void;
  #ear: Ear | undefined;
  #isOpening = false;
  #isClosed = false;
  #failures = 0;
  #timer: Timer | undefined;

  constructor(
    connection: RedisConnection,
    where: string,
    options: { readonly connectTimeoutMs: number; readonly clock: Clock },
  ) {
    this.#connection = connection;
    this.#where = where;
    this.#timeoutMs = options.connectTimeoutMs;
    this.#clock = options.clock;
    this.#forget = connection.onReconnect(() => {
      // What silenced the one has perhaps silenced the other.
      if (this.#ear === undefined) void this.#open();
      else this.#ping(this.#ear);
    });
  }

  async subscribe(name: string, listener: Hear): Promise<() => Promise<void>> {
    if (this.#isClosed) throw this.#closedError();
    const channel = this.#channels.get(name) ?? { listeners: new Set(), waiting: new Set(), live: false };
    this.#channels.set(name, channel);
    // One of our own, so that the same function may listen twice.
    const hear: Hear = (message) => listener(message);
    channel.listeners.add(hear);
    const leave = async (): Promise<void> => {
      channel.listeners.delete(hear);
      if (channel.listeners.size > 0 || this.#channels.get(name) !== channel) return;
      this.#channels.delete(name);
      // Not allowed to, or not there any more: then nobody listens to what comes.
      if (channel.live) await this.#ear?.unsubscribe(name).catch(() => {});
    };
    if (!channel.live) {
      const live = new Promise<void>((resolve, reject) => void channel.waiting.add({ resolve, reject }));
      if (this.#ear === undefined) void this.#open();
      else if (channel.waiting.size === 1) this.#listen(this.#ear, name, channel);
      try {
        await live;
      } catch (error) {
        await leave();
        throw error;
      }
    }
    return leave;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#forget();
    this.#timer?.clear();
    this.#refuse(this.#closedError());
    this.#channels.clear();
    this.#ear?.disconnect();
    this.#ear = undefined;
  }

  async #open(): Promise<void> {
    if (this.#isOpening || this.#isClosed || this.#channels.size === 0) return;
    this.#isOpening = true;
    this.#timer?.clear();
    try {
      const client = await this.#connection.client();
      // Closed in the meantime, or nobody listens any more.
      if (this.#isClosed || this.#channels.size === 0) return;
      await this.#connect(client.ear((channel, message) => this.#heard(channel, message)));
    } catch (error) {
      // The connection of the commands says when it is worth trying again.
      if (!(error instanceof LeaseholdError)) this.#again();
      else if (!(error instanceof StoreUnavailableError)) this.#refuse(error);
    } finally {
      this.#isOpening = false;
    }
  }

  async #connect(ear: Ear): Promise<void> {
    const ended = new Promise<void>((resolve) => ear.onClose(resolve));
    const timer = this.#clock.setTimer(this.#timeoutMs, () => ear.disconnect(), { ref: false });
    try {
      await within(ear.connect(), ended);
      await within(ear.ping(), ended);
    } catch (error) {
      ear.disconnect();
      if (isAuthFailure(error)) this.#refuse(authFailure(this.#where, error));
      else this.#again();
      return;
    } finally {
      timer.clear();
    }
    if (this.#isClosed) {
      ear.disconnect();
      return;
    }
    this.#ear = ear;
    this.#failures = 0;
    void ended.then(() => this.#lost(ear));
    for (const [name, channel] of this.#channels) this.#listen(ear, name, channel);
    this.#pingLater(ear);
  }

  #listen(ear: Ear, name: string, channel: Channel): void {
    ear.subscribe(name).then(
      () => {
        if (this.#ear !== ear || this.#channels.get(name) !== channel) return;
        channel.live = true;
        for (const { resolve } of channel.waiting) resolve();
        channel.waiting.clear();
      },
      (error: unknown) => {
        // Anything else is the end of the connection, which is announced.
        if (isAuthFailure(error)) refuse(channel, authFailure(this.#where, error));
      },
    );
  }

  #heard(name: string, message: string): void {
    for (const hear of this.#channels.get(name)?.listeners ?? []) hear(message);
  }

  #lost(ear: Ear): void {
    if (this.#ear !== ear) return;
    this.#ear = undefined;
    for (const channel of this.#channels.values()) channel.live = false;
    this.#again();
  }

  #again(): void {
    if (this.#isClosed) return;
    this.#timer?.clear();
    this.#timer = this.#clock.setTimer(retryDelayMs(++this.#failures), () => void this.#open(), { ref: false });
  }

  #pingLater(ear: Ear): void {
    this.#timer?.clear();
    this.#timer = this.#clock.setTimer(PING_EVERY_MS, () => this.#ping(ear), { ref: false });
  }

  /** A network that forgot us says nothing, and neither does a channel on which nothing happens. */
  #ping(ear: Ear): void {
    if (this.#ear !== ear) return;
    const timer = this.#clock.setTimer(this.#timeoutMs, () => ear.disconnect(), { ref: false });
    ear.ping().then(
      () => {
        timer.clear();
        if (this.#ear === ear) this.#pingLater(ear);
      },
      () => timer.clear(),
    );
  }

  #refuse(error: LeaseholdError): void {
    for (const channel of this.#channels.values()) refuse(channel, error);
  }

  #closedError(): LeaseholdError {
    return new StoreUnavailableError(`${this.#where} is closed`, { mayHaveRun: false });
  }
}

function refuse(channel: Channel, error: LeaseholdError): void {
  for (const { reject } of channel.waiting) reject(error);
  channel.waiting.clear();
}

function within<T>(work: Promise<T>, ended: Promise<void>): Promise<T> {
  return Promise.race([work, ended.then(() => Promise.reject(new Error('the connection ended')))]);
}
