import { randomUUID } from 'node:crypto';
import { fork, type ChildProcess } from 'node:child_process';

import { ProcessGroup } from '../../process-group.ts';
import { errorOf, ours, type FromHandler, type HandlerData, type ToHandler, type ToProcess } from './messages.ts';
import type { Ending, Peer } from './peer.ts';

const MAIN = new URL(import.meta.url.endsWith('.ts') ? './process-main.ts' : './process-main.js', import.meta.url);
/** From SIGTERM to SIGKILL. With the time that a handler has after its signal it is less than a shutdown waits. */
const KILL_AFTER_MS = 1000;

/** What signals mean that nobody here has sent. */
const MEANING: Readonly<Record<string, string>> = {
  SIGKILL:
    ', which the system sends when memory is short, and the process itself once its channel to this one was closed (process.disconnect)',
  SIGABRT: ', as Node ends when its heap is full (--max-old-space-size)',
  SIGTRAP: ', as Node ends when its heap is full (--max-old-space-size)',
};

/** A process of its own, the leader of a process group, so that what it starts is ended with it. */
export class ProcessPeer implements Peer {
  readonly kind = 'process';
  readonly sharesMemory = false;
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  readonly #group: ProcessGroup | undefined;
  #isKept = false;
  #heard: ((message: FromHandler) => void) | undefined;

  constructor(data: HandlerData) {
    this.#child = fork(MAIN, [], {
      // A debugger's port is that of this process.
      execArgv: process.execArgv.filter((arg) => !arg.startsWith('--inspect')),
      detached: true,
      serialization: 'advanced',
      // What it prints goes where this process prints, as with a thread.
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let fault: Error | undefined;
    const key = randomUUID();
    this.#child.on('message', (sent: unknown) => {
      const message = ours(sent, key);
      if (message === undefined) return;
      if (message.type === 'fault') fault = errorOf(message.error);
      else this.#heard?.(message);
    });
    const { pid } = this.#child;
    if (pid === undefined) {
      this.ended = new Promise((resolve) => {
        this.#child.once('error', (cause) => {
          const message = `the process of the handler cannot be started: ${cause.message}`;
          resolve({ fault: new Error(message, { cause }), how: message });
        });
      });
      return;
    }
    // Of signals and messages to one that has just ended.
    this.#child.on('error', () => {});
    const exit = new Promise<void>((resolve) => this.#child.once('exit', () => resolve()));
    const group = new ProcessGroup(pid, exit);
    this.#group = group;
    keepTrack(group);
    // `close` comes after the last message.
    const closed = new Promise<string>((resolve) => {
      this.#child.once('close', (code, signal) => resolve(howOf(code, signal)));
    });
    this.ended = closed.then(async (how) => {
      // What it has started may go on.
      if (group.isAlive()) await group.terminate(KILL_AFTER_MS);
      alive.delete(group);
      return { fault, how: `the process of the handler ${how}` };
    });
    this.#send({ type: 'begin', data, key });
  }

  onOver(over: () => void): void {
    this.#child.once('error', over);
    this.#child.once('exit', over);
  }

  send(message: ToHandler): void {
    this.#send(message);
  }

  listen(heard: (message: FromHandler) => void): void {
    this.#heard = heard;
  }

  keep(isKept: boolean): void {
    this.#isKept = isKept;
    if (isKept) {
      this.#child.ref();
      this.#child.channel?.ref();
    } else {
      this.#child.unref();
      this.#child.channel?.unref();
    }
  }

  async terminate(): Promise<unknown> {
    if (this.#group !== undefined && alive.has(this.#group)) {
      if (this.#isKept) await this.#group.terminate(KILL_AFTER_MS);
      // No run is asked to end.
      else this.#group.signal('SIGKILL');
    }
    return this.ended;
  }

  #send(message: ToProcess): void {
    // One that has ended hears nothing, and `ended` tells.
    if (this.#child.connected) this.#child.send(message, () => {});
  }
}

function howOf(code: number | null, signal: string | null): string {
  if (signal !== null) return `was ended by ${signal}${MEANING[signal] ?? ''}`;
  return `has ended before the handler did, with code ${code}`;
}

const alive = new Set<ProcessGroup>();
let isTracking = false;

/** A process that is blocked does not notice that this one ends; so it is ended with it, unless this one is killed. */
function keepTrack(group: ProcessGroup): void {
  alive.add(group);
  if (isTracking) return;
  isTracking = true;
  process.on('exit', () => {
    for (const group of alive) group.signal('SIGKILL');
  });
}
