import { AsyncLocalStorage } from 'node:async_hooks';
import type { Holder, LeaseLostError } from '@leasehold/core';
import type { Attributes, Job, Span, SpanKind } from 'bullmq';
import { WorkerEvents } from './events.ts';
import type { LeasedJob } from './options.ts';
import { isControlError, propertyOf } from './thrown.ts';

/**
 * How a job left its processor, in the attribute `leasehold.outcome`. `put-back`: it is in its queue again, or waits for its
 * children, for a reason that is no trouble with its lease.
 */
type Outcome = 'completed' | 'failed' | 'skipped' | 'busy' | 'lost' | 'abandoned' | 'put-back';

type TraceCallback<T> = (span?: Span, metadata?: string) => Promise<T> | T;

/** Of BullMQ's `trace`: what is traced, where it goes, what to call, where it came from. */
export type TraceArguments<T> = [
  kind: SpanKind,
  operation: string,
  destination: string,
  callback: TraceCallback<T>,
  source?: string,
];

const spans = new AsyncLocalStorage<Span | undefined>();
const traces = new WeakMap<Job, JobTrace>();

/**
 * For a callback of BullMQ's `trace`, the only place where it shows the span of a job: `traced` below finds it. BullMQ
 * counts the parameters of the callback.
 */
export function showingSpan<T>(callback: TraceCallback<T>): TraceCallback<T> {
  const showing: TraceCallback<T> = (span, metadata) => {
    // Also without a span: this worker may have been made by a job of another one, whose span is no business of ours.
    const isSame = spans.getStore() === span;
    return isSame ? callback(span, metadata) : spans.run(span, () => callback(span, metadata));
  };
  return Object.defineProperty(showing, 'length', { value: callback.length });
}

/**
 * Runs a job, and writes on its span what came of its lease:
 *
 * - attributes `leasehold.resource`, `leasehold.fence` (the fencing token), `leasehold.lease_id`, `leasehold.wait_ms` (from the
 *   start of the job to its lease), `leasehold.outcome`;
 * - events `lease.busy`, `lease.lost`, `lease.abandoned`.
 *
 * Without telemetry, or where the span cannot be found, it only runs it.
 */
export function traced<R>(job: Job, run: () => Promise<R>): Promise<R> {
  const span = spans.getStore();
  return span === undefined ? run() : tracedIn(span, job, run);
}

async function tracedIn<R>(span: Span, job: Job, run: () => Promise<R>): Promise<R> {
  const trace = new JobTrace(span);
  traces.set(job, trace);
  try {
    const value = await run();
    trace.succeeded();
    return value;
  } catch (error) {
    trace.failed(error);
    throw error;
  } finally {
    // The span ends now. A processor that was left behind has nothing more to say to it.
    traces.delete(job);
  }
}

/** The worker's events, on the spans of its jobs as well. */
export class TracedEvents extends WorkerEvents {
  override acquired(job: LeasedJob): void {
    traces.get(job)?.acquired(job);
    super.acquired(job);
  }

  override busy(job: Job, holder: Holder | null, remainingMs: number, resource: string): void {
    traces.get(job)?.busy(holder, remainingMs, resource);
    super.busy(job, holder, remainingMs, resource);
  }

  override lost(job: LeasedJob, error: LeaseLostError): void {
    traces.get(job)?.lost(error);
    super.lost(job, error);
  }

  override abandoned(job: LeasedJob, reason: Error): void {
    traces.get(job)?.abandoned(reason);
    super.abandoned(job, reason);
  }
}

class JobTrace {
  readonly #span: Span;
  readonly #startedMs = performance.now();
  /** What happened to the lease, if it decides what became of the job. */
  #event: 'busy' | 'lost' | 'abandoned' | undefined;

  constructor(span: Span) {
    this.#span = span;
  }

  acquired({ lease }: LeasedJob): void {
    this.#set({
      'leasehold.resource': lease.resource,
      'leasehold.fence': lease.fencingToken,
      'leasehold.lease_id': lease.leaseId,
      'leasehold.wait_ms': Math.round(performance.now() - this.#startedMs),
    });
  }

  busy(holder: Holder | null, remainingMs: number, resource: string): void {
    this.#event = 'busy';
    this.#set({ 'leasehold.resource': resource });
    this.#add('lease.busy', {
      'leasehold.remaining_ms': remainingMs,
      ...(holder !== null && { 'leasehold.holder': holder.owner, 'leasehold.holder_fence': holder.fencingToken }),
    });
  }

  lost(error: LeaseLostError): void {
    this.#event = 'lost';
    this.#add('lease.lost', { 'leasehold.reason': error.reason });
  }

  abandoned(reason: Error): void {
    this.#event = 'abandoned';
    this.#add('lease.abandoned', { 'leasehold.reason': reason.message });
  }

  succeeded(): void {
    this.#end(this.#event === 'busy' ? 'skipped' : 'completed');
  }

  failed(error: unknown): void {
    const isPutBack = isControlError(error) && propertyOf(error, 'name') !== 'UnrecoverableError';
    this.#end(this.#event ?? (isPutBack ? 'put-back' : 'failed'));
  }

  #end(outcome: Outcome): void {
    this.#set({ 'leasehold.outcome': outcome });
  }

  #set(attributes: Attributes): void {
    try {
      this.#span.setAttributes(attributes);
    } catch {
      // Telemetry that is out of order must not take the job with it.
    }
  }

  #add(event: string, attributes: Attributes): void {
    try {
      this.#span.addEvent(event, attributes);
    } catch {
      // As above.
    }
  }
}
