/**
 * The fences and the model check decide alike: step by step, whatever is done in whatever order, a real fence does what
 * the function says that the model check searched.
 */

import { MemoryFence, type Fence, type Grant } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

// Not public: the very function, not a copy of it.
import { admits } from '../../packages/core/src/fence/fence.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

type Mark = Awaited<ReturnType<Fence['highest']>>;

/** Few tokens and few leaseIds, so that they meet; one token too far ahead. */
interface Step {
  readonly does: 'activate' | 'write' | 'seal';
  readonly token: number;
  readonly lease: string;
}

const steps = fc.array(
  fc.record<Step>({
    does: fc.constantFrom('activate', 'write', 'write', 'seal'),
    token: fc.oneof(
      { weight: 12, arbitrary: fc.integer({ min: 1, max: 12 }) },
      { weight: 1, arbitrary: fc.constant(0) },
    ),
    lease: fc.constantFrom('a', 'b', 'c'),
  }),
  { minLength: 1, maxLength: 40 },
);

/** The rule alone: what becomes of a mark, and what a step has to answer. */
function ruled(mark: Mark, { does, lease }: Step, grant: Grant): { readonly said: string; readonly mark: Mark } {
  const { fencingToken, leaseId } = grant;
  if (lease === 'far') return { said: 'TOKEN_OUT_OF_RANGE', mark };
  if (does === 'seal') {
    const sealed = mark === null || mark.fencingToken <= fencingToken;
    return { said: 'done', mark: sealed ? { fencingToken, leaseId: null } : mark };
  }
  if (!admits(mark, grant)) return { said: `STALE_TOKEN ${mark?.fencingToken} ${mark?.leaseId}`, mark };
  return { said: 'done', mark: { fencingToken, leaseId } };
}

interface Log {
  readonly fence: Fence;
  write(grant: Grant, entry: string): Promise<unknown>;
  entries(resource: string): Promise<readonly string[]>;
}

async function saidBy(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason as { code: string; highest?: NonNullable<Mark> },
  );
  if (error === null) return 'done';
  return error.highest === undefined
    ? error.code
    : `${error.code} ${error.highest.fencingToken} ${error.highest.leaseId}`;
}

/** Throws where the fence differs from the rule. */
async function follow(log: Log, sequence: readonly Step[]): Promise<void> {
  const resource = `suite/${uniqueName('rule')}`;
  const nowUs = Date.now() * 1000;
  let mark: Mark = null;
  const written: string[] = [];
  for (const [index, step] of sequence.entries()) {
    const isFar = step.token === 0;
    const fencingToken = isFar ? nowUs + 48 * 3_600_000_000 : nowUs + step.token;
    const grant = { resource, fencingToken, leaseId: step.lease };
    const entry = `${index} by ${step.lease}`;
    const work = {
      activate: () => log.fence.activate(grant),
      write: () => log.write(grant, entry),
      seal: () => log.fence.seal(resource, fencingToken),
    }[step.does];
    const { said, mark: after } = ruled(mark, isFar ? { ...step, lease: 'far' } : step, grant);
    expect(await saidBy(work()), `step ${index}`).toBe(said);
    if (step.does === 'write' && said === 'done') written.push(entry);
    mark = after;
    expect(await log.fence.highest(resource), `after step ${index}`).toEqual(mark);
  }
  expect(await log.entries(resource)).toEqual(written);
}

function memoryLog(): Log {
  const fence = new MemoryFence();
  const entriesOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value : []);
  return {
    fence,
    write: (grant, entry) =>
      fence.write(grant, (tx) => tx.set(grant.resource, [...entriesOf(tx.get(grant.resource)), entry])),
    entries: async (resource) => entriesOf(fence.values.get(resource)),
  };
}

describe('step by step a fence does what the rule says', () => {
  let server: RedisServer;
  let client: Awaited<ReturnType<typeof connectRedis>>;

  beforeAll(async () => {
    server = await startRedis({ scope: 'file' });
    client = await connectRedis(server.url);
  });

  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  test('in memory', async () => {
    await fc.assert(
      fc.asyncProperty(steps, (sequence) => follow(memoryLog(), sequence)),
      { numRuns: 300 },
    );
  });

  test('in Redis', async () => {
    const fence = redisFence(client);
    const log: Log = {
      fence,
      write: (grant, entry) => fence.write(grant, (tx) => tx.call('RPUSH', `log:${grant.resource}`, entry)),
      entries: (resource) => client.lrange(`log:${resource}`, 0, -1),
    };
    await fc.assert(
      fc.asyncProperty(steps, (sequence) => follow(log, sequence)),
      { numRuns: 100 },
    );
  });

  test('a fence that compares only the token is found out, by very few steps', async () => {
    const { fence, ...log } = memoryLog();
    const admitEqual = (grant: Grant) => (error: unknown) => {
      const { highest } = error as { readonly highest?: NonNullable<Mark> };
      if (highest?.fencingToken !== grant.fencingToken || highest.leaseId === null) throw error;
    };
    const wrong: Log = {
      ...log,
      fence: {
        name: fence.name,
        enforcing: true,
        activate: (grant) => fence.activate(grant).catch(admitEqual(grant as Grant)),
        write: (grant, body) => fence.write(grant, body),
        seal: (resource, fencingToken) => fence.seal(resource, fencingToken),
        highest: (resource) => fence.highest(resource),
      },
    };
    const property = fc.asyncProperty(steps, (sequence) => follow(wrong, sequence));
    const { counterexample, errorInstance } = await fc.check(property, { numRuns: 300 });
    expect(String(errorInstance)).toMatch(/expected 'done' to be 'STALE_TOKEN/);
    expect(counterexample?.[0].length).toBeLessThanOrEqual(4);
  });
});
