import { startChild, type Child } from '../support/child.ts';
import { isAlive, stateOf } from '../support/signals.ts';

const program = new URL('./fixtures/worker.ts', import.meta.url);

export interface WorkerSettings {
  readonly name: string;
  /** Of the lease store. */
  readonly url: string;
  readonly prefix: string;
  readonly resource: string;
  readonly ttlMs: number;
  /** Of the Redis behind its fence; without one it writes through none. */
  readonly ledgerUrl?: string;
  /** Goes on when it is asked to end. */
  readonly isDeaf?: boolean;
  /** It believes that it runs on this machine. */
  readonly host?: string;
}

/** A process that holds a lease. */
export class Worker implements AsyncDisposable {
  readonly leaseId: string;
  readonly fencingToken: number;
  /** When it ended, by the wall clock; null as long as it has not. */
  endedAt: number | null = null;
  readonly #child: Child;

  private constructor(child: Child, grant: { readonly leaseId: string; readonly fencingToken: number }) {
    this.#child = child;
    this.leaseId = grant.leaseId;
    this.fencingToken = grant.fencingToken;
    void child.exit.then(() => (this.endedAt = Date.now()));
  }

  /** Resolves when it holds its lease. */
  static async start(settings: WorkerSettings): Promise<Worker> {
    const child = startChild(program, { args: [JSON.stringify(settings)], scope: 'file' });
    return new Worker(child, await child.next('holds'));
  }

  get pid(): number {
    return this.#child.pid;
  }

  get isAlive(): boolean {
    return isAlive(this.pid);
  }

  get isStopped(): boolean {
    return this.isAlive && /^[Tt]/.test(stateOf(this.pid));
  }

  /** Whether its run was cancelled: its lease was lost, or it was asked to end. */
  get isCancelled(): boolean {
    return this.#child.unread.some(({ type }) => type === 'cancelled');
  }

  async kill(): Promise<void> {
    await this.#child.kill9();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  /** It goes on if it was stopped, and writes what it was about to write. The code of the fence's refusal, or null. */
  async writesLate(): Promise<string | null> {
    this.#child.cont();
    this.#child.send('write');
    const { code } = await this.#child.next<{ code: string | null }>('wrote');
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.kill9();
  }
}
