import { pathToFileURL } from 'node:url';

import type { Fence } from '@leasehold/core';
import { pino, type Logger } from 'pino';

import type { JobContext, JobHandler } from '../context.ts';
import { fencesOfJob, openFence } from '../fences.ts';
import { IsolatedLease } from './isolated-lease.ts';
import { plainOf, reasonOf, type FromHandler, type HandlerData, type RunMessage, type ToHandler } from './messages.ts';

/** The handler of a job, in the thread or process that is there for it. */
export class ServedHandler {
  readonly #tell: (message: FromHandler) => void;
  readonly #handler: JobHandler;
  readonly #log: Logger;
  readonly #fences: ReadonlySet<Fence>;
  readonly #fencesByName: object;
  #current: { readonly lease: IsolatedLease; readonly abort: AbortController } | undefined;

  private constructor(
    tell: (message: FromHandler) => void,
    handler: JobHandler,
    log: Logger,
    { list, byName }: ReturnType<typeof fencesOfJob>,
  ) {
    this.#tell = tell;
    this.#handler = handler;
    this.#log = log;
    this.#fences = new Set(list);
    this.#fencesByName = byName;
  }

  /** Imports its file and opens its fences. Rejects with whatever the file throws. */
  static async open(data: HandlerData, tell: (message: FromHandler) => void): Promise<ServedHandler> {
    const { job, file, exported, fences: settings, logLevel } = data;
    const log = pino({ level: logLevel, base: null }, { write: (line: string) => tell({ type: 'log', line }) });
    const all = new Map<string, Fence | null>();
    for (const [name, its] of settings) all.set(name, its === null ? null : (await openFence(name, its, log)).fence);
    const module = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
    const served = new ServedHandler(tell, module[exported] as JobHandler, log, fencesOfJob(job, all));
    tell({ type: 'opened' });
    return served;
  }

  /** Whether a run goes on that was told to end. */
  get isAborted(): boolean {
    return this.#current?.abort.signal.aborted ?? false;
  }

  heard(message: ToHandler): void {
    switch (message.type) {
      case 'run':
        void this.#run(message);
        break;
      case 'until':
        this.#current?.lease.trustUntil(message.until);
        break;
      case 'abort':
        if (this.#current !== undefined) {
          const { lease, abort } = this.#current;
          abort.abort(reasonOf(message.reason, lease.resource, lease.grant));
        }
    }
  }

  async #run(message: RunMessage): Promise<void> {
    const abort = new AbortController();
    const { signal } = abort;
    const lease = new IsolatedLease(message.lease, signal, this.#fences, ({ fence, resource, fencingToken, highest }) =>
      this.#tell({
        type: 'refused',
        refusal: { fence, resource: resource ?? '', fencingToken: fencingToken ?? 0, highest },
      }),
    );
    const current = { lease, abort };
    this.#current = current;
    const { job, run } = message;
    const context = { job, run, lease, signal, fences: this.#fencesByName, log: this.#log };
    let end: FromHandler;
    try {
      end = { type: 'done', value: await this.#handler(context as unknown as JobContext) };
    } catch (error) {
      end = { type: 'failed', error: plainOf(error) };
    }
    if (this.#current === current) this.#current = undefined;
    try {
      this.#tell(end);
    } catch (error) {
      // Of a value that cannot be sent.
      this.#tell({ type: 'failed', error: plainOf(error) });
    }
  }
}
