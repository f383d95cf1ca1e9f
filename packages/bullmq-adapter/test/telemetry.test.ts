import { EventEmitter } from 'node:events';
import { DelayedError, type Attributes, type Job, type Span, type Worker } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { parseLeaseOptions, type LeasedJob, type LeaseOptions } from '../src/options.ts';
import { Runs } from '../src/run.ts';
import type { Body } from '../src/runner.ts';
import { showingSpan, traced, TracedEvents } from '../src/telemetry.ts';
import { fakeJob, type FakeJob } from './fake-job.ts';
import { leaseOf, lose, setUp } from './set-up.ts';

interface Heard {
  readonly attributes: Attributes;
  readonly events: { readonly name: string; readonly attributes?: Attributes | undefined }[];
}

function fakeSpan(): Span & Heard {
  const span = {
    attributes: {} as Attributes,
    events: [] as Heard['events'],
    setAttributes: (attributes: Attributes) => void Object.assign(span.attributes, attributes),
    addEvent: (name: string, attributes?: Attributes) => void span.events.push({ name, attributes }),
  };
  return span as unknown as Span & Heard;
}

/** As a leased worker runs a job. */
function traceable(options: Partial<LeaseOptions> = {}) {
  const its = setUp();
  const settings = parseLeaseOptions({ resource: 'reports', ...options }, 'lease');
  const observer = new TracedEvents(new EventEmitter().on('error', () => {}) as unknown as Worker);
  const runs = new Runs(its.manager, settings, observer, its.closing.signal);
  const runOn = <R>(span: Span | undefined, job: FakeJob, body: Body<R>): Promise<R> => {
    const callback = async (_?: Span): Promise<R> => {
      // BullMQ writes to its span before it comes to the processor.
      await Promise.resolve();
      return traced(job as Job, () => runs.run(job, 'lock', undefined, body));
    };
    return showingSpan(callback)(span) as Promise<R>;
  };
  return { ...its, observer, runOn };
}

describe('the span of a job', () => {
  it('names the lease, and what came of it', async () => {
    const { runOn } = traceable();
    const [span, job] = [fakeSpan(), fakeJob()];
    expect(await runOn(span, job, () => 'value')).toBe('value');
    const { fencingToken, leaseId } = leaseOf(job);
    expect(span.attributes).toEqual({
      'leasehold.resource': 'reports',
      'leasehold.fence': fencingToken,
      'leasehold.lease_id': leaseId,
      'leasehold.wait_ms': expect.any(Number),
      'leasehold.outcome': 'completed',
    });
    expect(span.events).toEqual([]);
  });

  it('has the lease before the processor begins', async () => {
    const { runOn } = traceable();
    const [span, job] = [fakeSpan(), fakeJob()];
    const seen = await runOn(span, job, () => span.attributes['leasehold.lease_id']);
    expect(seen).toBe(leaseOf(job).leaseId);
  });

  it('tells how long the job waited in line', async () => {
    const { manager, runOn } = traceable({ whenBusy: 'hold' });
    const held = await manager.acquire('reports');
    const [span, job] = [fakeSpan(), fakeJob()];
    const begun = performance.now();
    const running = runOn(span, job, () => performance.now());
    await new Promise((resolve) => setTimeout(resolve, 30));
    await held.release();
    const waitedMs = (await running) - begun;
    expect(span.attributes['leasehold.wait_ms']).toBeGreaterThanOrEqual(29);
    expect(span.attributes['leasehold.wait_ms']).toBeLessThanOrEqual(waitedMs + 1);
  });

  it('says who has a busy resource', async () => {
    const { manager, runOn } = traceable();
    await using held = await manager.acquire('reports');
    const span = fakeSpan();
    await expect(runOn(span, fakeJob(), () => 'value')).rejects.toBeInstanceOf(DelayedError);
    expect(span.attributes).toEqual({ 'leasehold.resource': 'reports', 'leasehold.outcome': 'busy' });
    expect(span.events).toEqual([
      {
        name: 'lease.busy',
        attributes: {
          'leasehold.remaining_ms': expect.any(Number),
          'leasehold.holder': expect.stringContaining(`pid ${process.pid}`),
          'leasehold.holder_fence': held.fencingToken,
        },
      },
    ]);
  });

  it.each([
    { whenBusy: 'skip', outcome: 'skipped' },
    { whenBusy: 'fail', outcome: 'busy' },
  ] as const)('says that a busy job was $outcome with $whenBusy', async ({ whenBusy, outcome }) => {
    const { manager, runOn } = traceable({ whenBusy });
    await using _ = await manager.acquire('reports');
    const span = fakeSpan();
    await runOn(span, fakeJob(), () => 'value').catch(() => {});
    expect(span.attributes['leasehold.outcome']).toBe(outcome);
  });

  it('says that the lease was lost, whatever the processor makes of it', async () => {
    const its = traceable();
    const [span, job] = [fakeSpan(), fakeJob()];
    const running = its.runOn(span, job, async (signal) => {
      await lose(its, signal);
      return 'all the same';
    });
    await expect(running).rejects.toBeInstanceOf(DelayedError);
    expect(span.attributes['leasehold.outcome']).toBe('lost');
    expect(span.attributes['leasehold.lease_id']).toBe(leaseOf(job).leaseId);
    expect(span.events).toEqual([{ name: 'lease.lost', attributes: { 'leasehold.reason': 'superseded' } }]);
  });

  it('says that the processor was left behind', async () => {
    const { runOn } = traceable({ abandonAfter: 20, maxHold: 30 });
    const span = fakeSpan();
    let end!: () => void;
    const running = runOn(span, fakeJob(), () => new Promise<void>((resolve) => (end = resolve)));
    await expect(running).rejects.toBeInstanceOf(DelayedError);
    end();
    expect(span.attributes['leasehold.outcome']).toBe('abandoned');
    expect(span.events.map(({ name }) => name)).toEqual(['lease.abandoned']);
    expect(span.events[0]?.attributes?.['leasehold.reason']).toMatch(/^RUN_CANCELLED reports: max-hold/);
  });

  it('hears no more when it has ended', async () => {
    const { observer, runOn } = traceable();
    const [span, job] = [fakeSpan(), fakeJob()];
    await runOn(span, job, () => 'value');
    observer.abandoned(job as unknown as LeasedJob, new Error('late'));
    expect(span.events).toEqual([]);
  });

  it('says that the job failed, or that its processor moved it', async () => {
    const { runOn } = traceable();
    const [failed, moved] = [fakeSpan(), fakeSpan()];
    await expect(runOn(failed, fakeJob(), () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await expect(runOn(moved, fakeJob(), () => Promise.reject(new DelayedError()))).rejects.toThrow(DelayedError);
    expect(failed.attributes['leasehold.outcome']).toBe('failed');
    expect(moved.attributes['leasehold.outcome']).toBe('put-back');
  });

  it('names no lease where a job needs none', async () => {
    const { runOn } = traceable({ resource: () => null });
    const span = fakeSpan();
    await runOn(span, fakeJob(), () => 'value');
    expect(span.attributes).toEqual({ 'leasehold.outcome': 'completed' });
  });

  it('is its own, however many jobs run', async () => {
    const { runOn } = traceable({ resource: (job) => `customer:${job.id}` });
    const all = [1, 2, 3].map((n) => ({ span: fakeSpan(), job: fakeJob({ id: `${n}` }) }));
    await Promise.all(all.map(({ span, job }) => runOn(span, job, () => Promise.resolve())));
    for (const { span, job } of all) expect(span.attributes['leasehold.resource']).toBe(`customer:${job.id}`);
  });

  it('that throws at everything breaks no run', async () => {
    const its = traceable();
    const span = new Proxy({} as Span, {
      get() {
        throw new Error('no telemetry today');
      },
    });
    expect(await its.runOn(span, fakeJob(), () => 'value')).toBe('value');
    const running = its.runOn(span, fakeJob(), async (signal) => {
      await lose(its, signal);
    });
    await expect(running).rejects.toBeInstanceOf(DelayedError);
  });
});

describe('a job without a span', () => {
  it('runs all the same', async () => {
    const { runOn } = traceable();
    expect(await runOn(undefined, fakeJob(), () => 'value')).toBe('value');
  });

  it('writes nothing on the span of the job that made its worker', async () => {
    const { runOn } = traceable({ resource: (job) => `customer:${job.id}` });
    const span = fakeSpan();
    await runOn(span, fakeJob({ id: 'outer' }), () =>
      runOn(undefined, fakeJob({ id: 'inner' }), () => Promise.resolve()),
    );
    expect(span.attributes['leasehold.resource']).toBe('customer:outer');
  });
});

it('BullMQ counts the parameters of what it traces, and counts right', () => {
  expect(showingSpan(() => Promise.resolve())).toHaveLength(0);
  expect(showingSpan((_span) => Promise.resolve())).toHaveLength(1);
  expect(showingSpan((_span, _metadata) => Promise.resolve())).toHaveLength(2);
});
