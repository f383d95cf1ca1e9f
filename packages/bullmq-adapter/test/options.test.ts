import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { Worker } from 'bullmq';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { leased, LeasedWorker, withLease, type LeasedWorkerOptions } from '../src/index.ts';
import { fakeJob } from './fake-job.ts';

const manager = new LeaseManager({ store: new MemoryLeaseStore() });
const processor = async (): Promise<void> => {};
// Refused before anything connects.
const connection = { host: '127.0.0.1', port: 1, retryStrategy: () => null };

function make(options: object, its: unknown = processor): () => void {
  return () =>
    new LeasedWorker('queue', its as typeof processor, { connection, ...options } as unknown as LeasedWorkerOptions);
}

describe('options of a LeasedWorker', () => {
  it.each([
    ['lease', {}],
    ['lease.resource', { lease: {} }],
    ['lease.resource', { lease: { resource: 7 } }],
    ['lease.resource', { lease: { resource: 'customer:undefined' } }],
    ['lease.manager', { lease: { resource: 'reports', manager: {} } }],
    ['lease.resources', { lease: { resource: 'reports', resources: [] } }],
    ['lease.ttl', { lease: { resource: 'reports', ttl: 30 } }],
    ['lease.ttl', { lease: { resource: 'reports', ttl: '30sec' } }],
    ['lease.maxHold', { lease: { resource: 'reports', maxHold: 0 } }],
    ['lease.fences', { lease: { resource: 'reports', fences: {} } }],
    ['lease.fences.0', { lease: { resource: 'reports', fences: [{}] } }],
    ['lease.activate', { lease: { resource: 'reports', activate: 'never' } }],
    ['lease.scope', { lease: { resource: 'reports', scope: 'queue' } }],
    ['lease.whenBusy', { lease: { resource: 'reports', whenBusy: 'wait' } }],
    ['lease.whenLost', { lease: { resource: 'reports', whenLost: 'ignore' } }],
    ['lease.abandonAfter', { lease: { resource: 'reports', abandonAfter: -1 } }],
    ['lease.grace', { lease: { resource: 'reports', grace: '10' } }],
    ['lease.resource', { lease: { resource: () => 'reports', scope: 'worker' } }],
    ['lease.whenBusy', { lease: { resource: 'reports', scope: 'worker', whenBusy: 'delay' } }],
    ['maxStartedAttempts', { lease: { resource: 'reports' }, maxStartedAttempts: 3 }],
  ])('refuses %s', (option, options) => {
    expect(make(options)).toThrow(expect.objectContaining({ code: 'CONFIG', option }));
  });

  it("refuses what the manager's timing does not allow, before it connects", () => {
    const slow = new LeaseManager({ store: new MemoryLeaseStore(), callTimeout: '1s' });
    const lease = { resource: 'reports', manager: slow, ttl: '1s' };
    expect(make({ lease })).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'callTimeout' }));
    expect(() => leased(processor, lease as never)).toThrow(/callTimeout/);
  });

  it.each([
    ['nothing', null],
    ['what is none', {}],
    ['an async generator function', async function* () {}],
    ['a generator function', function* () {}],
  ])('refuses %s as a processor', (_, its) => {
    expect(make({ lease: { resource: 'reports' } }, its)).toThrow(
      expect.objectContaining({ code: 'CONFIG', option: 'processor' }),
    );
  });

  it('says what is missing when there are none', () => {
    expect(() => new LeasedWorker('queue', processor, undefined as never)).toThrow(/^CONFIG: lease: is missing/);
  });

  it.each([
    ['a PostgreSQL pool', { query: () => {}, totalCount: 0 }],
    ['options for PostgreSQL', { connectionString: 'postgres://localhost' }],
    ['a URL', 'postgres://localhost'],
    ['other options for PostgreSQL', { host: 'localhost', user: 'jobs', database: 'jobs' }],
    ['a client of another kind', { connect() {}, duplicate() {}, sendCommand() {}, isOpen: false }],
    ['a client that was wrapped for BullMQ', { connect() {}, duplicate() {}, call() {}, on() {}, runCommand() {} }],
  ])('needs a manager beside %s', (_, other) => {
    expect(make({ lease: { resource: 'reports' }, connection: other })).toThrow(
      expect.objectContaining({ code: 'CONFIG', option: 'lease.manager' }),
    );
  });
});

describe('leased', () => {
  it('makes a function of three parameters, so that BullMQ gives it a signal', () => {
    expect(leased(processor, { manager, resource: 'reports' })).toHaveLength(3);
  });

  it('makes Node suspect no leak, however many there are, and however many jobs of one wait', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
    onTestFinished(() => warned.mockRestore());
    await using busy = new LeaseManager({ store: new MemoryLeaseStore() });
    for (let n = 0; n < 20; n++) leased(processor, { manager: busy, resource: 'reports' });
    const held = await busy.acquire('reports');
    const run = leased(() => 'ran', { manager: busy, resource: 'reports', whenBusy: 'hold' });
    const jobs = Array.from({ length: 20 }, (_, n) => run(fakeJob({ id: `waits-${n}` }), 'lock'));
    await expect.poll(() => busy.waiting, { interval: 1 }).toBe(20);
    await held.release();
    expect(await Promise.all(jobs)).toEqual(jobs.map(() => 'ran'));
    expect(warned.mock.calls).toEqual([]);
  });

  it('refuses what is no processor, and what BullMQ would not run', () => {
    const options = { manager, resource: 'reports' };
    for (const its of ['processor.js', null, async function* () {}]) {
      expect(() => leased(its as never, options)).toThrow(expect.objectContaining({ option: 'processor' }));
    }
  });

  it('needs a manager and knows its options', () => {
    const make = (options: object) => () => leased(processor, options as never);
    expect(make({ resource: 'reports' })).toThrow(
      expect.objectContaining({ code: 'CONFIG', option: 'options.manager' }),
    );
    for (const other of ['fence', 'scope', 'grace']) {
      expect(make({ resource: 'reports', manager, [other]: [] })).toThrow(
        expect.objectContaining({ code: 'CONFIG', option: `options.${other}` }),
      );
    }
  });
});

describe('options of withLease', () => {
  it.each([
    ['manger', { manger: manager }],
    ['manager', { manager: {} }],
  ])('refuses %s', (option, options) => {
    expect(() => withLease(Worker, options as object)).toThrow(expect.objectContaining({ code: 'CONFIG', option }));
  });
});

it.each([undefined, null])('says what a resource can be when it is %s', (resource) => {
  expect(make({ lease: { resource } })).toThrow(/must be a text, or a function of the job/);
});
