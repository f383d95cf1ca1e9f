import { fork, type ChildProcess } from 'node:child_process';
import type { Grant } from '@leasehold/core';
import type { HistoryLine } from '@leasehold/core/testing/history';
import { ProcessGroup } from '../process-group.ts';
import type { FromOwner, OwnerSetup, ToOwner } from './messages.ts';

const MAIN = new URL(import.meta.url.endsWith('.ts') ? './owner-main.ts' : './owner-main.js', import.meta.url);

type Of<T extends FromOwner['type']> = Extract<FromOwner, { readonly type: T }>;

/** A message that says what to do, without the number of its call. */
type Asked = 'guarded-write' | 'late-write';

/** What did not come, so that a proof has failed. */
export class NotSeenError extends Error {}

/** A process that a drill has started; from here it is told what to do, stopped, and killed. */
export class OwnerProcess implements AsyncDisposable {
  readonly name: string;
  /** What it has done, as it says. */
  readonly lines: HistoryLine[] = [];
  readonly #child: ChildProcess;
  readonly #messages: FromOwner[] = [];
  readonly #looks = new Set<() => void>();
  readonly #signal: AbortSignal;
  readonly #exit: Promise<NodeJS.Signals | null>;
  #calls = 0;
  #over: string | undefined;
  #isOurDoing = false;

  /** An aborted signal ends every wait with its reason. */
  constructor(setup: OwnerSetup, signal: AbortSignal) {
    this.name = setup.process;
    this.#signal = signal;
    this.#child = fork(MAIN, [], {
      // A debugger's port is that of this process.
      execArgv: process.execArgv.filter((arg) => !arg.startsWith('--inspect')),
      // Ctrl-C at a terminal is for the drill, which then ends it.
      detached: true,
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    // Of messages to one that has just ended.
    this.#child.on('error', (error) => this.#end(error.message));
    this.#child.on('message', (message: FromOwner) => {
      if (message.type === 'line') this.lines.push(message.line);
      else this.#messages.push(message);
      this.#look();
    });
    this.#exit = new Promise((resolve) => {
      // Of a fork without streams it comes after the last message.
      this.#child.once('close', (code, signal) => {
        this.#end(signal ?? `code ${code}`);
        resolve(signal);
      });
      if (this.#child.pid === undefined) resolve(null);
    });
    this.#send({ type: 'set-up', setup });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Resolves when store and fence have answered it. */
  async ready(timeoutMs: number): Promise<void> {
    await this.#next('ready', timeoutMs, 'reached its store and its fence');
  }

  work(): void {
    this.#send({ type: 'work' });
  }

  /** Resolves when it has its lease, and its guarded section begins. */
  acquired(timeoutMs: number): Promise<Of<'acquired'>> {
    return this.#next('acquired', timeoutMs, 'acquired the lease');
  }

  aborted(timeoutMs: number): Promise<Of<'aborted'>> {
    return this.#next('aborted', timeoutMs, 'been told that its lease is over');
  }

  ended(timeoutMs: number): Promise<Of<'ended'>> {
    return this.#next('ended', timeoutMs, 'left its guarded section');
  }

  /** Until it has asked for the lease and was told that it is another's. */
  async waits(timeoutMs: number): Promise<void> {
    const isRefused = (): true | undefined =>
      this.lines.some(({ act, phase }) => act === 'acquire' && phase === 'fail') || undefined;
    await this.#until(isRefused, timeoutMs, 'asked for the lease');
  }

  /** Until its fence has accepted so many writes more than by now. */
  async writes(count: number, timeoutMs: number): Promise<void> {
    const accepted = (): number => this.lines.filter(({ act, phase }) => act === 'write' && phase === 'ok').length;
    const wanted = accepted() + count;
    await this.#until(() => accepted() >= wanted || undefined, timeoutMs, `written ${count} times`);
  }

  write(how: Asked, timeoutMs: number): Promise<Of<'answer'>> {
    return this.#ask({ type: how, call: ++this.#calls }, timeoutMs);
  }

  stepClock(byMs: number, timeoutMs: number): Promise<Of<'answer'>> {
    return this.#ask({ type: 'step-clock', byMs, call: ++this.#calls }, timeoutMs);
  }

  block(forMs: number, timeoutMs: number): Promise<Of<'answer'>> {
    return this.#ask({ type: 'block', forMs, call: ++this.#calls }, forMs + timeoutMs);
  }

  async finish(timeoutMs: number): Promise<void> {
    this.#send({ type: 'finish' });
    await this.ended(timeoutMs);
  }

  stop(): void {
    this.#child.kill('SIGSTOP');
  }

  cont(): void {
    this.#child.kill('SIGCONT');
  }

  /** SIGKILL. Resolves when it is gone, with the signal that has ended it. */
  async kill(): Promise<NodeJS.Signals | null> {
    this.#isOurDoing = true;
    const { pid } = this.#child;
    // Its group too: a fence of the user's may have started something.
    if (pid !== undefined && this.#over === undefined) new ProcessGroup(pid, this.#exit).signal('SIGKILL');
    return this.#exit;
  }

  /** The token and leaseId of its lease, once it has one. */
  get grant(): Grant | undefined {
    return this.#messages.find((message) => message.type === 'acquired')?.grant;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #ask(message: ToOwner & { readonly call: number }, timeoutMs: number): Promise<Of<'answer'>> {
    this.#send(message);
    const answer = (): Of<'answer'> | undefined =>
      this.#messages.find((its): its is Of<'answer'> => its.type === 'answer' && its.call === message.call);
    return this.#until(answer, timeoutMs, `answered to ${message.type}`);
  }

  #next<T extends FromOwner['type']>(type: T, timeoutMs: number, what: string): Promise<Of<T>> {
    return this.#until(() => this.#messages.find((its): its is Of<T> => its.type === type), timeoutMs, what);
  }

  /** Rejects with `NotSeenError` if that did not happen in time, or cannot any more. */
  #until<T>(found: () => T | undefined, timeoutMs: number, what: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        this.#looks.delete(look);
        this.#signal.removeEventListener('abort', look);
        settle();
      };
      const timer = setTimeout(() => {
        end(() => reject(new NotSeenError(`within ${Math.round(timeoutMs)} ms ${this.name} has not ${what}`)));
      }, timeoutMs);
      const look = (): void => {
        if (this.#signal.aborted) return end(() => reject(this.#signal.reason as Error));
        const value = found();
        if (value !== undefined) return end(() => resolve(value));
        const failure = this.#failure();
        if (failure !== undefined) end(() => reject(failure));
      };
      this.#looks.add(look);
      this.#signal.addEventListener('abort', look);
      look();
    });
  }

  /** Why nothing more will come. */
  #failure(): Error | undefined {
    const failed = this.#messages.find((message) => message.type === 'failed');
    if (failed !== undefined) return new Error(`${this.name} of the drill cannot go on: ${failed.message}`);
    if (this.#over === undefined) return undefined;
    if (this.#isOurDoing) return new NotSeenError(`${this.name} was killed before`);
    return new Error(`the process ${this.name} of the drill has ended by itself (${this.#over})`);
  }

  #send(message: ToOwner): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #end(how: string): void {
    this.#over ??= how;
    this.#look();
  }

  #look(): void {
    for (const look of this.#looks) look();
  }
}
