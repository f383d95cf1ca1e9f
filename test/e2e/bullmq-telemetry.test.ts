import { LeasedWorker } from '@leasehold/bullmq';
import { context, metrics, propagation, trace, TraceFlags, type Meter } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Queue, Worker, type Job, type Telemetry } from 'bullmq';
import { BullMQOtel } from 'bullmq-otel';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { connectRedis } from '../support/redis-client.ts';
import { aborted, Bench, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');
const exporter = new InMemorySpanExporter();
/** Names of the counters and histograms that were used, in order. */
const measured: string[] = [];

beforeAll(() => {
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator({
    fields: () => ['parent'],
    inject(its, carrier, setter) {
      const { traceId, spanId } = trace.getSpanContext(its) ?? { traceId: '', spanId: '' };
      setter.set(carrier, 'parent', `${traceId}-${spanId}`);
    },
    extract(its, carrier, getter) {
      const [traceId = '', spanId = ''] = String(getter.get(carrier, 'parent')).split('-');
      return trace.setSpanContext(its, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
    },
  });
  const instrument = (name: string) => ({ add: () => measured.push(name), record: () => measured.push(name) });
  const meter = { createCounter: instrument, createHistogram: instrument, createGauge: instrument };
  metrics.setGlobalMeterProvider({ getMeter: () => meter as unknown as Meter });
});

afterAll(() => {
  for (const api of [trace, context, propagation, metrics]) api.disable();
});

beforeEach(() => {
  exporter.reset();
  measured.length = 0;
});

async function process(job: Job): Promise<string> {
  return trace.getTracer('app').startActiveSpan('work', async (span) => {
    await job.updateProgress(50);
    span.end();
    return 'done';
  });
}

type Make = (bench: Bench, telemetry: Telemetry) => Worker;

/** One job from `add` to its end: all its spans, and what was measured. */
async function oneJob(make: Make) {
  exporter.reset();
  measured.length = 0;
  await using bench = new Bench(redisUrl);
  const telemetry = new BullMQOtel({ tracerName: 'queue', enableMetrics: true });
  const queue = bench.closing(new Queue(bench.name, { connection: bench.connection, telemetry }));
  const worker = bench.worker(make(bench, telemetry));
  const over = Promise.race([emitted(worker, 'completed'), emitted(worker, 'failed')]);
  await queue.add('job', {});
  await over;
  await worker.close();
  const all = exporter.getFinishedSpans();
  const nameOf = new Map(all.map((span) => [span.spanContext().spanId, span.name]));
  // What else there is depends on the time.
  const wanted = new Set(['add', 'process', 'work', 'updateProgress', 'complete']);
  const spans = all
    .filter(({ name }) => wanted.has(name.split(' ')[0] as string))
    .map(({ name, kind, attributes, events, status, parentSpanContext, instrumentationScope }) => ({
      name: name.replace(bench.name, 'queue'),
      kind,
      status,
      scope: instrumentationScope.name,
      parent: nameOf.get(parentSpanContext?.spanId ?? '')?.replace(bench.name, 'queue'),
      attributes: Object.keys(attributes).sort(),
      events: events.map((event) => event.name),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return { spans, all, measured: [...measured] };
}

const leasing: Make = (bench, telemetry) =>
  new LeasedWorker(bench.name, process, {
    connection: bench.connection,
    telemetry,
    lease: { resource: 'reports', manager: bench.manager() },
  });

describe('with bullmq-otel', () => {
  test('the spans, their parents, what they say and what is measured are as without a lease', async () => {
    const plain = await oneJob(
      (bench, telemetry) => new Worker(bench.name, process, { connection: bench.connection, telemetry }),
    );
    const leased = await oneJob(leasing);
    const without = leased.spans.map((span) => ({
      ...span,
      attributes: span.attributes.filter((name) => !name.startsWith('leasehold.')),
    }));
    expect(without).toEqual(plain.spans);
    expect(leased.measured).toEqual(plain.measured);
    expect(plain.measured).toContain('bullmq.jobs.completed');
    expect(plain.spans.map(({ name, parent }) => `${parent ?? 'nothing'} > ${name}`)).toEqual(
      expect.arrayContaining(['nothing > add queue.job', 'add queue.job > process queue', 'process queue > work']),
    );
  });

  test('the process span says under which lease, and no other span does', async () => {
    const { all } = await oneJob(leasing);
    const leased = all.filter(({ attributes }) =>
      Object.keys(attributes).some((name) => name.startsWith('leasehold.')),
    );
    expect(leased.map(({ name }) => name.split(' ')[0])).toEqual(['process']);
    expect(leased[0]?.attributes).toMatchObject({
      'leasehold.resource': 'reports',
      'leasehold.fence': expect.any(Number),
      'leasehold.lease_id': expect.stringMatching(/^[\w-]{16,}$/),
      'leasehold.wait_ms': expect.any(Number),
      'leasehold.outcome': 'completed',
    });
  });

  test('a busy resource and a lost lease are events of the span of that start of the job', async () => {
    await using bench = new Bench(redisUrl);
    await using redis = await connectRedis(redisUrl);
    const held = await bench.manager().acquire('reports');
    let runs = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (_job, _token, signal) => {
          if (++runs > 1) return 'done';
          await redis.del(`${bench.prefix}:{reports}`);
          throw await aborted(signal);
        },
        {
          connection: bench.connection,
          telemetry: new BullMQOtel(),
          lease: { resource: 'reports', manager: bench.manager({ ttl: 1000 }) },
        },
      ),
    );
    const busy = emitted(worker, 'leaseBusy');
    const completed = emitted(worker, 'completed');
    await bench.add({});
    await busy;
    await held.release();
    await completed;
    await worker.close();
    const spans = exporter.getFinishedSpans().filter(({ name }) => name.startsWith('process'));
    expect(
      spans.map(({ attributes, events }) => [
        attributes['leasehold.outcome'],
        ...events.map(({ name }) => name).filter((name) => name.startsWith('lease.')),
      ]),
    ).toEqual([['busy', 'lease.busy'], ['lost', 'lease.lost'], ['completed']]);
    const [, lost, last] = spans.map(({ attributes }) => attributes['leasehold.fence'] as number);
    expect(last).toBeGreaterThan(lost as number);
  });
});

describe('telemetry of any kind', () => {
  test('is given to BullMQ as it is', async () => {
    await using bench = new Bench(redisUrl);
    const telemetry = Object.freeze(Object.assign(Object.create({ inherited: 1 }), new BullMQOtel(), { more: 2 }));
    const worker = bench.worker(leasing(bench, telemetry));
    expect(worker.opts.telemetry).toBe(telemetry);
  });
});
