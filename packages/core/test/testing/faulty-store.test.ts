import { describe, expect, test } from 'vitest';

import { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { AcquireReply, AcquireRequest, StoreCall } from '../../src/store/store.ts';
import { FaultyStore } from '../../src/testing/faulty-store.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';

const call: StoreCall = { timeoutMs: 1_000 };

function request(leaseId: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    resource: 'reports',
    leaseId,
    ttlMs: 10_000,
    mode: 'try',
    owner: { line: leaseId, json: '{}' },
    channel: '',
    floor: 0,
    replaces: '',
    waitRefreshMs: 250,
    quarantineMs: 0,
    history: 'exceptions',
    ...more,
  };
}

function setUp(): { clock: ManualClock; memory: MemoryLeaseStore; store: FaultyStore } {
  const clock = new ManualClock();
  const memory = new MemoryLeaseStore({ clock });
  return { clock, memory, store: new FaultyStore(memory, { clock }) };
}

/** What becomes of a call, to be looked at while it is under way. */
function watch(reply: Promise<unknown>): { outcome: unknown } {
  const watched: { outcome: unknown } = { outcome: 'none yet' };
  reply.then(
    (value) => (watched.outcome = value),
    (error: unknown) => (watched.outcome = error),
  );
  return watched;
}

const noAnswer = { code: 'STORE_UNAVAILABLE', mayHaveRun: true };

describe('FaultyStore', () => {
  test('without a fault it is the store behind it, and leaves no timer', async () => {
    const { clock, store } = setUp();
    let sent = 0;
    expect(await store.acquire(request('a'), { ...call, sent: () => sent++ })).toMatchObject({ kind: 'granted' });
    const item = { resource: 'reports', leaseId: 'a', ttlMs: 10_000 };
    expect(await store.extend([item], call)).toMatchObject([{ verdict: 'extended' }]);
    expect(await store.read('reports', call)).toMatchObject({ state: 'held' });
    const end = { resource: 'reports', leaseId: 'a', outcome: 'done', floor: 0, history: 'exceptions' } as const;
    expect(await store.release(end, call)).toEqual({ kind: 'released' });
    expect(await store.cancel({ ...end, tombstoneMs: 0 }, call)).toEqual({ kind: 'nothing' });
    expect(store.calls).toMatchObject({ acquire: 1, extend: 1, release: 1, cancel: 1, read: 1 });
    expect(sent).toBe(1);
    await new Promise(setImmediate);
    expect(clock.timers).toEqual([]);
  });

  test('a lost request has no effect, and no answer', async () => {
    const { clock, memory, store } = setUp();
    store.once('acquire', { request: 'lost' });
    const reply = watch(store.acquire(request('a'), call));
    await clock.advanceAsync(999);
    expect(reply.outcome).toBe('none yet');
    await clock.advanceAsync(1);
    expect(reply.outcome).toMatchObject(noAnswer);
    expect(await memory.read('reports', call)).toBeNull();
    expect(await store.acquire(request('b'), call)).toMatchObject({ kind: 'granted' });
  });

  test('a lost reply comes after the effect', async () => {
    const { clock, memory, store } = setUp();
    store.once('acquire', { reply: 'lost' });
    const ran = store.next('acquire', 'ran');
    const reply = watch(store.acquire(request('a'), call));
    expect((await ran).leaseId).toBe('a');
    expect(await memory.read('reports', call)).toMatchObject({ state: 'held', leaseId: 'a' });
    await clock.advanceAsync(1_000);
    expect(reply.outcome).toMatchObject(noAnswer);
    expect(await store.acquire(request('a'), call)).toMatchObject({ kind: 'granted', again: true });
  });

  test('a late request runs after its caller has given up', async () => {
    const { clock, memory, store } = setUp();
    let arrive = (): void => {};
    store.once('acquire', { request: new Promise<void>((resolve) => (arrive = resolve)) });
    const reply = watch(store.acquire(request('ghost'), call));
    await clock.advanceAsync(1_000);
    expect(reply.outcome).toMatchObject(noAnswer);
    const ran = store.next('acquire', 'ran');
    arrive();
    await ran;
    expect(await memory.read('reports', call)).toMatchObject({ leaseId: 'ghost' });
  });

  test('a late reply is the reply of the moment when it ran', async () => {
    const { clock, store } = setUp();
    store.once('acquire', { reply: 500 });
    const reply = watch(store.acquire(request('a'), call));
    await clock.advanceAsync(499);
    expect(reply.outcome).toBe('none yet');
    await clock.advanceAsync(1);
    expect(reply.outcome).toMatchObject({ kind: 'granted', remainingMs: 10_000 });
  });

  test('a request that arrives twice has its first reply', async () => {
    const { memory, store } = setUp();
    await memory.acquire(request('a'), call);
    store.once('extend', { times: 2 });
    const item = { resource: 'reports', leaseId: 'a', ttlMs: 10_000 };
    expect(await store.extend([item], call)).toMatchObject([{ verdict: 'extended' }]);
    expect(await memory.read('reports', call)).toMatchObject({ extensions: 2 });
  });

  test('a reply can be made into another, or into an error', async () => {
    const { store } = setUp();
    store.once('acquire', { reply: (): AcquireReply => ({ kind: 'spent' }) });
    expect(await store.acquire(request('a'), call)).toEqual({ kind: 'spent' });
    const own = new Error('LOADING');
    store.once('acquire', { reply: own });
    await expect(store.acquire(request('b'), call)).rejects.toBe(own);
  });

  test('a fault lasts until it is healed; single ones come first, in their order', async () => {
    const { clock, store } = setUp();
    store.partition();
    store.once('acquire', {});
    expect(await store.acquire(request('a'), call)).toMatchObject({ kind: 'granted' });
    const replies = [store.acquire(request('b'), call), store.read('reports', call)].map(watch);
    await clock.advanceAsync(1_000);
    for (const { outcome } of replies) expect(outcome).toMatchObject(noAnswer);
    store.heal('read');
    expect(await store.read('reports', call)).toMatchObject({ leaseId: 'a' });
    const still = watch(store.acquire(request('b'), call));
    await clock.advanceAsync(1_000);
    expect(still.outcome).toMatchObject(noAnswer);
    store.heal();
    expect(await store.acquire(request('b'), call)).toMatchObject({ kind: 'busy' });
  });

  test('tells the stages of a call', async () => {
    const { store } = setUp();
    const order: string[] = [];
    for (const stage of ['settled', 'ran', 'sent'] as const) {
      void store.next('acquire', stage).then(({ leaseId }) => order.push(`${stage} ${leaseId}`));
    }
    await store.acquire(request('a'), call);
    await store.acquire(request('b'), call);
    expect(order).toEqual(['sent a', 'ran a', 'settled a']);
  });

  test('messages can be lost, and a reconnection announced', async () => {
    const { memory, store } = setUp();
    const heard: string[] = [];
    await store.subscribe('here', ({ kind }) => heard.push(kind));
    const end = { resource: 'reports', outcome: 'done', floor: 0, history: 'exceptions' } as const;
    for (const [deaf, leaseId] of [
      [true, 'a'],
      [false, 'b'],
    ] as const) {
      store.deaf = deaf;
      await memory.acquire(request(leaseId), call);
      await memory.acquire(request('parked', { mode: 'park', channel: 'here' }), call);
      await memory.release({ ...end, leaseId }, call);
      await new Promise(setImmediate);
    }
    expect(heard).toEqual(['free']);
    let reconnected = 0;
    const stop = store.onReconnect(() => reconnected++);
    store.reconnect();
    stop();
    store.reconnect();
    expect(reconnected).toBe(1);
  });

  test('what only some callers need fails in the same way', async () => {
    const { clock, memory, store } = setUp();
    await memory.acquire(request('a'), call);
    const { resource, ttlMs, owner, channel, floor, history } = request('b');
    const adoption = { resource, leaseId: 'b', from: 'a', ttlMs, owner, channel, floor, history };
    const list = async (): Promise<string[]> => {
      const names: string[] = [];
      for await (const each of store.list(call)) names.push(each.resource);
      return names;
    };
    const ask = {
      adopt: () => store.adopt(adoption, call),
      revoke: () => store.revoke({ resource, leaseId: 'b', operator: 'me', reason: 'why' }, call),
      list,
      history: () => store.history(resource, 10, call),
      ticks: () => store.ticks(resource, 'job', call),
    };
    store.partition();
    for (const [operation, run] of Object.entries(ask)) {
      const failed = expect(run(), operation).rejects.toMatchObject(noAnswer);
      await clock.advanceAsync(1_000);
      await failed;
    }
    store.heal();
    expect(await ask.adopt()).toMatchObject({ kind: 'granted' });
    expect(await ask.revoke()).toMatchObject({ kind: 'revoked' });
    expect(await list()).toEqual(['reports']);
    expect((await ask.history()).map(({ event }) => event)).toEqual(['revoked', 'adopted']);
    expect(await ask.ticks()).toEqual([]);
    expect(store.calls).toMatchObject({ adopt: 2, revoke: 2, list: 2, history: 2, ticks: 2 });
  });

  test('the connection is that of the store behind it', async () => {
    const { memory, store } = setUp();
    expect(store.server).toBeUndefined();
    await store.connect();
    memory.restart({ persistent: true });
    expect(store.server).toEqual({ ageMs: 0, restarted: true, runId: '2' });
  });

  test('evidence can be lost, and is there where the store behind has it', async () => {
    const { clock, memory, store } = setUp();
    const { servers } = await memory.evidence('reports', null, call);
    expect((await store.evidence?.('reports', null, call))?.servers[0]?.runId).toEqual(servers[0]?.runId);
    store.once('evidence', { request: 'lost' });
    const lost = watch(store.evidence?.('reports', null, call) ?? Promise.resolve());
    await clock.advanceAsync(1_000);
    expect(lost.outcome).toMatchObject(noAnswer);
    const bare = Object.assign(Object.create(memory) as MemoryLeaseStore, { evidence: undefined });
    expect(new FaultyStore(bare).evidence).toBeUndefined();
  });
});
