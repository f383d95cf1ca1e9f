import { describe, expect, test } from 'vitest';

import type { Clock } from '../../src/clock.ts';
import { MemoryServer } from '../../src/store/memory-server.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import { EMPTY } from '../../src/store/state.ts';
import type { AcquireRequest } from '../../src/store/store.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';

const call = { timeoutMs: 1_000 };

function request(leaseId: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    resource: 'reports',
    leaseId,
    ttlMs: 1_000,
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

async function token(store: MemoryLeaseStore, leaseId: string): Promise<number> {
  const reply = await store.acquire(request(leaseId), call);
  if (reply.kind !== 'granted') throw new Error(`${reply.kind}, not granted`);
  return reply.fencingToken;
}

describe('MemoryLeaseStore', () => {
  test('says that a call was sent, decides later, and answers later still', async () => {
    const store = new MemoryLeaseStore({ clock: new ManualClock() });
    const order: string[] = [];
    const first = store
      .acquire(request('a'), { ...call, sent: () => order.push('sent a') })
      .then(({ kind }) => order.push(`a ${kind}`));
    const second = store
      .acquire(request('b'), { ...call, sent: () => order.push('sent b') })
      .then(({ kind }) => order.push(`b ${kind}`));
    order.push('returned');
    await Promise.all([first, second]);
    expect(order).toEqual(['sent a', 'sent b', 'returned', 'a granted', 'b busy']);
  });

  test('expires exactly when the clock has moved by the ttl', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    await store.acquire(request('a'), call);
    clock.advance(999);
    expect(await store.read('reports', call)).toMatchObject({ state: 'held' });
    clock.advance(1);
    expect(await store.read('reports', call)).toMatchObject({ state: 'expired' });
  });

  test('keeps tokens growing across a flush in an instant that does not pass', async () => {
    const manual = new ManualClock();
    const still: Clock = {
      monotonicMs: () => manual.monotonicMs(),
      wallMs: () => manual.wallMs(),
      wallUs: () => manual.wallMs() * 1000,
      uptimeMs: () => manual.uptimeMs(),
      setTimer: (delayMs, fire, options) => manual.setTimer(delayMs, fire, options),
    };
    const store = new MemoryLeaseStore({ clock: still });
    let last = 0;
    for (let round = 0; round < 5; round++) {
      const fencingToken = await token(store, `lease ${round}`);
      expect(fencingToken).toBeGreaterThan(last);
      last = fencingToken;
      store.flush();
      expect(await store.read('reports', call)).toBeNull();
    }
    // A clock that was set back as well: then nothing can be known of the tokens before.
    manual.stepWall(-60_000);
    expect(await token(store, 'after')).toBeLessThan(last);
  });

  test('loses the data of one resource only, if told so', async () => {
    const store = new MemoryLeaseStore();
    await store.acquire(request('a'), call);
    await store.acquire(request('b', { resource: 'invoices' }), call);
    store.flush('reports');
    expect(await store.read('reports', call)).toBeNull();
    expect(await store.read('invoices', call)).toMatchObject({ state: 'held' });
  });

  test('beside gives a store on the same data that is closed for itself', async () => {
    const store = new MemoryLeaseStore({ prefix: 'shop' });
    const other = store.beside();
    expect(other.namespace).toBe('shop');
    await store.acquire(request('a'), call);
    expect(await other.acquire(request('b'), call)).toMatchObject({ kind: 'busy' });
    await store.close();
    await expect(store.read('reports', call)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
    expect(await other.read('reports', call)).toMatchObject({ state: 'held' });
  });

  test('a listener hears nothing any more once it has ended', async () => {
    const store = new MemoryLeaseStore();
    const heard: string[] = [];
    const end = await store.subscribe('here', ({ kind }) => heard.push(kind));
    await store.acquire(request('a'), call);
    await store.acquire(request('b', { mode: 'park', channel: 'here' }), call);
    await end();
    await store.release({ resource: 'reports', leaseId: 'a', outcome: 'done', floor: 0, history: 'exceptions' }, call);
    await new Promise(setImmediate);
    expect(heard).toEqual([]);
  });

  test('a closed store listens no longer, and to nothing new', async () => {
    const store = new MemoryLeaseStore();
    const other = store.beside();
    const heard: string[] = [];
    await other.subscribe('here', ({ kind }) => heard.push(kind));
    other.onReconnect(() => heard.push('reconnected'));
    await store.acquire(request('a', { channel: 'here' }), call);
    await other.close();
    await store.revoke({ resource: 'reports', leaseId: 'a', operator: 'me', reason: 'why' }, call);
    store.restart({ persistent: true });
    await new Promise(setImmediate);
    expect(heard).toEqual([]);
    await expect(other.subscribe('here', () => {})).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    await expect(other.connect()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  });

  test('a restart is seen by who was connected before it, and loses all unless it is persistent', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    expect(store.server).toBeUndefined();
    await store.acquire(request('a'), call);
    clock.advance(700);
    expect(store.server).toEqual({ ageMs: 700, restarted: false, runId: '1' });
    let reconnected = 0;
    store.onReconnect(() => reconnected++);
    const late = store.beside();
    store.restart({ persistent: true });
    await new Promise(setImmediate);
    expect(reconnected).toBe(1);
    clock.advance(50);
    await late.connect();
    expect(late.server).toEqual({ ageMs: 50, restarted: false, runId: '2' });
    expect(store.server).toEqual({ ageMs: 50, restarted: true, runId: '2' });
    expect(await store.read('reports', call)).toMatchObject({ leaseId: 'a' });
    store.restart({ persistent: false });
    expect(await store.read('reports', call)).toBeNull();
    expect(late.server).toMatchObject({ restarted: true });
  });

  test('gives back the room of what is forgotten, though nobody asks for it again', () => {
    const server = new MemoryServer(new ManualClock());
    const claim = {
      at: 1,
      attempt: 1,
      status: 'done',
      leaseId: 'a',
      fencingToken: 1,
      owner: 'a',
      previous: null,
    } as const;
    const use = (resource: string, nowUs: number, keptUntilUs: number | null): void =>
      server.decide<void>(resource, nowUs, () => ({
        state: { ...EMPTY, ticks: new Map([['job', { ...claim, keptUntilUs }]]) },
        reply: undefined,
        messages: [],
      }));
    use('kept', 0, null);
    for (let index = 0; index < 5000; index++) use(`once ${index}`, index, index + 100);
    expect(server.resources.size).toBeLessThanOrEqual(1001);
    expect(server.resources.has('kept')).toBe(true);
    expect(server.state('once 4999', 4999).ticks.size).toBe(1);
    expect(server.state('once 4999', 5099).ticks.size).toBe(0);
  });

  test('says of itself what a server would', async () => {
    const store = new MemoryLeaseStore({ clock: new ManualClock() });
    const evidence = async () => store.evidence('reports', null, { timeoutMs: 1000 });
    const before = await evidence();
    expect(before).toMatchObject({ shape: { value: { kind: 'absent' } }, key: '', connections: { known: false } });
    expect(before.servers).toMatchObject([{ role: { value: 'master' }, clockOffset: { value: { offsetMs: 0 } } }]);
    store.restart({ persistent: true });
    expect((await evidence()).servers[0]?.runId).not.toEqual(before.servers[0]?.runId);
  });

  test('edit needs a record', () => {
    expect(new MemoryLeaseStore().edit('reports', { revoked: 'a' })).toBe(false);
  });

  test('the prefix must be one', () => {
    expect(() => new MemoryLeaseStore({ prefix: 'a/b' })).toThrow('prefix');
  });
});
