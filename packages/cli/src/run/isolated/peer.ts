import type { FromHandler, ToHandler } from './messages.ts';

/** How a thread or process has ended. */
export interface Ending {
  /** The error that ended it, if it could tell. */
  readonly fault: Error | undefined;
  /** Of the handler's failure, if it had none. A sentence. */
  readonly how: string;
}

/** A thread or process that runs a handler, as seen from the one that has started it. */
export interface Peer {
  readonly kind: 'thread' | 'process';
  /** Whether memory can be given to it; else what stands in it is sent, again and again. */
  readonly sharesMemory: boolean;
  /** Resolves when nothing of it runs any more, not what it has started either. Never rejects. */
  readonly ended: Promise<Ending>;
  /** Calls `over` once, as soon as it takes no more runs. */
  onOver(over: () => void): void;
  /** Does nothing if it has ended. Throws for what cannot be copied. */
  send(message: ToHandler): void;
  /** Calls `heard` for each message. To be called once, at once. */
  listen(heard: (message: FromHandler) => void): void;
  /** Whether this process stays for it. */
  keep(isKept: boolean): void;
  /** Ends it, whatever it does. Resolves as `ended`. Never rejects. */
  terminate(): Promise<unknown>;
}
