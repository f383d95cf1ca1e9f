import { setTimeout as sleep } from 'node:timers/promises';
import { describeHappening, type History, type HistoryLine } from '@leasehold/core/testing/history';
import { Queue } from 'bullmq';

import { connectionOf } from '../e2e/fixtures/bullmq-setup.ts';
import { uniqueName } from '../support/redis-client.ts';
import type { Services } from './episode.ts';
import type { LiveStage } from './live-stage.ts';
import type { OwnerSetup } from './owners/setup.ts';
import { sharedMs } from './pen.ts';
import type { Plan } from './plan.ts';

/** What the processes of an episode are given to do. */
export interface Workload {
  readonly resources: readonly string[];
  readonly queue: OwnerSetup['queue'];
  /** Once they are at work. */
  begin(): Working;
}

export interface Working extends AsyncDisposable {
  /** What a person would set right once the faults are over. */
  calm(): Promise<void>;
  /** In peace again: waits until all is done that was begun. With what went wrong. */
  settle(stage: LiveStage): Promise<readonly string[]>;
}

/** A later run of a job is never of an earlier tick, as long as the store remembers which was the last. */
export function ticksThatGoBack({ lines }: History): readonly string[] {
  if (lines.some(({ nemesis }) => nemesis === 'data-loss' || nemesis === 'store-clock')) return [];
  const last = new Map<string, HistoryLine>();
  return lines
    .filter(({ act }) => act === 'run')
    .sort((a, b) => (a.fencingToken ?? 0) - (b.fencingToken ?? 0))
    .flatMap((run) => {
      const before = last.get(run.resource ?? '');
      last.set(run.resource ?? '', run);
      if (before === undefined || (before.tickAt ?? 0) <= (run.tickAt ?? 0)) return [];
      return [`a tick went back:\n${describeHappening(before)}\n${describeHappening(run)}`];
    });
}

const NOTHING: Working = { calm: async () => {}, settle: async () => [], [Symbol.asyncDispose]: async () => {} };

export function workloadOf({ workload, seed, attempts = 10_000 }: Plan, services: Services): Workload {
  switch (workload) {
    case 'core':
      return { resources: ['alpha', 'beta', 'gamma'].slice(0, 2 + (seed % 2)), queue: null, begin: () => NOTHING };
    case 'cron':
      return { resources: ['once', 'again'], queue: null, begin: () => NOTHING };
    case 'bullmq': {
      const scope = seed % 3 === 0 ? 'worker' : 'job';
      const resources = scope === 'worker' ? ['line'] : ['key-1', 'key-2', 'key-3', 'key-4'];
      const queue = { url: services.queueUrl, name: uniqueName('jobs'), scope } as const;
      return { resources, queue, begin: () => new Jobs(queue.url, queue.name, resources, attempts) };
    }
  }
}

/** To do them all, on a machine that has much else to do. */
const DONE_MS = 60_000;
/** So many at most wait to be done. */
const LINE = 8;

/** Jobs for a queue, as many as are done. */
class Jobs implements Working {
  readonly #queue: Queue;
  readonly #resources: readonly string[];
  readonly #attempts: number;
  readonly #ids: string[] = [];
  readonly #adding: Promise<void>;
  readonly #over = new AbortController();
  #trouble: string | undefined;

  constructor(url: string, name: string, resources: readonly string[], attempts: number) {
    this.#attempts = attempts;
    this.#queue = new Queue(name, { connection: connectionOf(url) });
    this.#queue.on('error', () => {}); // each call reports its own failure
    this.#resources = resources;
    this.#adding = this.#add().catch((error: unknown) => void (this.#trouble = String(error)));
  }

  /** BullMQ keeps a delay as an instant of the worker's wall clock: what one has delayed that was ahead would rest for as much longer. */
  async calm(): Promise<void> {
    await this.#queue.promoteJobs();
  }

  async settle(stage: LiveStage): Promise<readonly string[]> {
    this.#over.abort();
    await this.#adding;
    const untilMs = sharedMs() + DONE_MS;
    let counts = await this.#counts();
    while (counts.completed + counts.failed < this.#ids.length && sharedMs() < untilMs) {
      await sleep(50);
      counts = await this.#counts();
    }
    const written = await stage.ledger.jobs();
    const lost = this.#ids.filter((id) => !written.has(id));
    return [
      ...(this.#trouble === undefined ? [] : [`jobs could not be added: ${this.#trouble}`]),
      ...(counts.completed === this.#ids.length ? [] : [`of ${this.#ids.length} jobs: ${JSON.stringify(counts)}`]),
      ...(lost.length === 0 ? [] : [`jobs that are done and have written nothing: ${lost.join(', ')}`]),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#adding;
    await this.#queue.obliterate({ force: true }).catch(() => {}); // whoever is killed leaves its jobs active
    await this.#queue.close();
  }

  async #add(): Promise<void> {
    let n = 1;
    while (!this.#over.signal.aborted) {
      const { wait, delayed, active } = await this.#counts();
      if (wait + delayed + active >= LINE) {
        await sleep(30);
        continue;
      }
      const key = this.#resources[n++ % this.#resources.length];
      const { id = '' } = await this.#queue.add(
        'job',
        { key },
        { attempts: this.#attempts, backoff: { type: 'fixed', delay: 50 } },
      );
      this.#ids.push(id);
    }
  }

  async #counts(): Promise<Record<'wait' | 'active' | 'delayed' | 'failed' | 'completed', number>> {
    const counts = await this.#queue.getJobCounts('wait', 'active', 'delayed', 'failed', 'completed');
    const of = (name: string): number => counts[name] ?? 0;
    return {
      wait: of('wait'),
      active: of('active'),
      delayed: of('delayed'),
      failed: of('failed'),
      completed: of('completed'),
    };
  }
}
