import { LeaseholdError } from '@leasehold/core';
import { DelayedError, RateLimitError, UnrecoverableError, WaitingChildrenError, WaitingError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { checkResource, resourceOf } from '../src/resource.ts';
import { isControlError } from '../src/thrown.ts';
import { fakeJob } from './fake-job.ts';

describe('checkResource', () => {
  it.each([
    ['customer:undefined'],
    ['customer:null'],
    ['null'],
    ['undefined:7'],
    ['customer_undefined_7'],
    ['customer:NaN'],
    ['customer:[object Object]'],
    [''],
    [undefined],
    [7],
    [['a', 'b']],
    [Promise.resolve('a')],
    ['a\nb'],
    ['x'.repeat(257)],
  ])('refuses %j', (name) => {
    expect(() => checkResource('lease.resource', name)).toThrow(/^CONFIG: lease\.resource: /);
  });

  it.each(['customer:42', 'nullable', 'annul', 'undefinedness', 'Null Island', 'größe', '{a}', 'customer:nan'])(
    'takes %j',
    (name) => {
      expect(() => checkResource('lease.resource', name)).not.toThrow();
    },
  );
});

describe('resourceOf', () => {
  it('asks the function with the job', () => {
    expect(resourceOf((job) => `customer:${job.data.id}`, fakeJob({ data: { id: 42 } }))).toBe('customer:42');
  });

  it('takes a text for every job, and null for none', () => {
    expect(resourceOf('reports', fakeJob())).toBe('reports');
    expect(resourceOf(() => null, fakeJob())).toBeNull();
  });

  it('fails a job for good whose value is missing', () => {
    const failure = failureOf(() => resourceOf((job) => `customer:${job.data.id}`, fakeJob()));
    expect(failure).toBeInstanceOf(UnrecoverableError);
    expect(failure.message).toMatch(/^CONFIG: lease\.resource: "customer:undefined" contains undefined/);
    expect(LeaseholdError.is(failure, 'CONFIG')).toBe(true);
  });

  it('fails a job in the usual way when the function throws', () => {
    const failure = failureOf(() => resourceOf((job) => job.data.customer.id, fakeJob()));
    expect(failure).toBeInstanceOf(TypeError);
    const forGood = new UnrecoverableError('no such customer');
    expect(failureOf(() => resourceOf(() => raise(forGood), fakeJob()))).toBe(forGood);
  });

  it.each([
    new DelayedError(),
    new WaitingError(),
    new WaitingChildrenError(),
    new RateLimitError(),
    new Error('bullmq:rateLimitExceeded'),
  ])('fails a job also when the function throws an order to BullMQ: $name', (order) => {
    const failure = failureOf(() => resourceOf(() => raise(order), fakeJob()));
    expect(isControlError(failure)).toBe(false);
    expect(failure).toMatchObject({ message: expect.stringContaining('`resource`'), cause: order });
  });
});

function raise(error: unknown): never {
  throw error;
}

function failureOf(call: () => unknown): Error {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('did not throw');
}
