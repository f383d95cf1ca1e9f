import { randomUUID } from 'node:crypto';
import { Worker } from 'node:worker_threads';

import {
  errorOf,
  ours,
  plainOf,
  type Beginning,
  type FromHandler,
  type HandlerData,
  type ToHandler,
} from './messages.ts';
import type { Ending, Peer } from './peer.ts';

const MAIN = new URL(import.meta.url.endsWith('.ts') ? './thread-main.ts' : './thread-main.js', import.meta.url);

/** A thread of this process. */
export class ThreadPeer implements Peer {
  readonly kind = 'thread';
  readonly sharesMemory = true;
  readonly ended: Promise<Ending>;
  readonly #worker: Worker;
  #heard: ((message: FromHandler) => void) | undefined;

  constructor(data: HandlerData) {
    const key = randomUUID();
    this.#worker = new Worker(MAIN, { workerData: { data, key } satisfies Beginning });
    let fault: Error | undefined;
    this.#worker.on('error', (error: unknown) => {
      fault ??= error instanceof Error ? error : errorOf(plainOf(error));
    });
    this.#worker.on('message', (sent: unknown) => {
      const message = ours(sent, key);
      if (message !== undefined && message.type !== 'fault') this.#heard?.(message);
    });
    this.ended = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        resolve({ fault, how: `the thread of the handler has ended before the handler did, with ${code}` });
      });
    });
  }

  onOver(over: () => void): void {
    this.#worker.once('error', over);
    this.#worker.once('exit', over);
  }

  send(message: ToHandler): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#worker.postMessage(message);
  }

  listen(heard: (message: FromHandler) => void): void {
    this.#heard = heard;
  }

  keep(isKept: boolean): void {
    if (isKept) this.#worker.ref();
    else this.#worker.unref();
  }

  terminate(): Promise<unknown> {
    return this.#worker.terminate();
  }
}
