import {
  FenceUnavailableError,
  LeaseManager,
  MemoryFence,
  StaleTokenError,
  TokenOutOfRangeError,
  type Fence,
  type Grant,
  type Holding,
} from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { thrownBy, unreadable } from '../thrown.ts';
import { bench, deferred, outcomeOf, rejectionOf } from './setup.ts';

/** A fence that records what it is asked, in front of a real one. */
function watched(inner: MemoryFence, log: string[]): Fence {
  return {
    name: inner.name,
    enforcing: true,
    activate: async (grant) => {
      log.push(`activate ${inner.name}`);
      await inner.activate(grant);
    },
    write: (grant, body) => inner.write(grant, body),
    seal: (resource, token) => inner.seal(resource, token),
    highest: (resource) => inner.highest(resource),
  };
}

function brokenFence(activate: (grant: Grant | Holding) => Promise<void>): Fence {
  return {
    name: 'broken',
    enforcing: true,
    activate,
    write: () => Promise.reject(new Error('unused')),
    seal: () => Promise.resolve(),
    highest: () => Promise.resolve(null),
  };
}

describe('fences of an acquisition', () => {
  test('are activated in the order of their names, before the body', async () => {
    const { manager, clock } = bench();
    const log: string[] = [];
    const fences = ['b', 'c', 'a'].map((name) => watched(new MemoryFence({ name, clock }), log));
    await manager.run('r', { fences }, () => log.push('body'));
    expect(log).toEqual(['activate a', 'activate b', 'activate c', 'body']);
  });

  test('let through the writes of their lease, and refuse those of the one before', async () => {
    const { manager, other, clock, store, events } = bench();
    const ledger = new MemoryFence({ clock });
    const paused = deferred();
    const first = outcomeOf(
      manager.run('r', { fences: [ledger] }, async (lease) => {
        await ledger.write(lease, () => 'one');
        const { grant } = lease;
        await paused.promise;
        // Its own clocks would stop it, so the late packet is played by its grant.
        return ledger.write(grant, () => 'late');
      }),
    );
    await clock.advanceAsync(0);
    store.partition();
    await clock.advanceAsync(4000);
    const token = await other().run('r', { fences: [ledger] }, (lease) => lease.fencingToken);
    paused.resolve();
    const outcome = (await first) as PromiseRejectedResult;
    expect(outcome.reason).toMatchObject({ code: 'LEASE_LOST', settled: { error: { code: 'STALE_TOKEN' } } });
    expect((outcome.reason as { settled: { error: StaleTokenError } }).settled.error.highest.fencingToken).toBe(token);
    expect(events).toContain('lost');
  });

  test('a write by a lost lease is stopped by its own clocks before it is sent', async () => {
    const { manager, clock } = bench();
    const ledger = new MemoryFence({ clock });
    const lease = await manager.acquire('r', { fences: [ledger] });
    clock.block(3000);
    let ran = false;
    expect(await rejectionOf(ledger.write(lease, () => (ran = true)))).toMatchObject({ code: 'LEASE_LOST' });
    expect(ran).toBe(false);
  });

  test('a fence that was not named refuses the write', async () => {
    const { manager, clock } = bench();
    const ledger = new MemoryFence({ clock });
    await manager.run('r', async (lease) => {
      expect(await rejectionOf(ledger.write(lease, () => 1))).toMatchObject({ code: 'FENCE_NOT_ACTIVATED' });
    });
    await manager.run('r', { fences: [ledger], activate: 'on-write' }, async (lease) => {
      expect(await ledger.highest('leasehold/r')).toBeNull();
      expect(await ledger.write(lease, () => 1)).toBe(1);
    });
  });

  test('a write inside a write of the same lease is refused, and does not wait for itself', async () => {
    const { manager, clock } = bench();
    const ledger = new MemoryFence({ clock });
    await manager.run('r', { fences: [ledger] }, async (lease) => {
      await ledger.write(lease, async (tx) => {
        tx.set('a', 1);
        expect(await rejectionOf(ledger.write(lease, () => 1))).toMatchObject({ code: 'CONFIG', option: 'write' });
      });
      expect(ledger.values.get('a')).toBe(1);
    });
  });

  test('what is no grant, no body or no name is refused in words', async () => {
    const { clock } = bench();
    const ledger = new MemoryFence({ clock });
    const grant = { resource: 'leasehold/r', fencingToken: 1, leaseId: 'x' };
    for (const bad of [
      { holding: {} },
      { holding: { mayWrite: 1 } },
      null,
      undefined,
      7n,
      [],
      { ...grant, fencingToken: 0 },
    ]) {
      expect(await rejectionOf(ledger.write(bad as never, () => 1))).toMatchObject({ code: 'CONFIG', option: 'grant' });
    }
    expect(await rejectionOf(ledger.write(grant, 7 as never))).toMatchObject({ code: 'CONFIG', option: 'body' });
    expect(await rejectionOf(ledger.seal(7 as never, 1))).toMatchObject({ code: 'CONFIG', option: 'resource' });
    expect(await rejectionOf(ledger.highest(''))).toMatchObject({ code: 'CONFIG', option: 'resource' });
  });

  test('a token alone is refused: it is not a grant', async () => {
    const { clock } = bench();
    const ledger = new MemoryFence({ clock });
    expect(await rejectionOf(ledger.write(42 as never, () => 1))).toMatchObject({ code: 'CONFIG' });
    expect(await rejectionOf(ledger.activate('42' as never))).toMatchObject({ code: 'CONFIG' });
  });

  test('a stale refusal of the bare grant, wrapped or not, counts as a loss when it ends the body', async () => {
    const { manager, clock, events } = bench();
    const ledger = new MemoryFence({ clock });
    const ran = manager.run('r', { fences: [ledger] }, async ({ grant }) => {
      await ledger.seal('leasehold/r', grant.fencingToken);
      await ledger
        .write(grant, () => 1)
        .catch((cause: unknown) => {
          throw new Error('the orm says no', { cause });
        });
    });
    expect(await rejectionOf(ran)).toMatchObject({
      code: 'LEASE_LOST',
      reason: 'fenced',
      settled: { error: { message: 'the orm says no' } },
    });
    expect(events).toEqual(['acquired', 'rejected', 'lost']);
  });

  test('a refused write loses the lease', async () => {
    const { manager, clock, events } = bench();
    const ledger = new MemoryFence({ clock });
    const lease = await manager.acquire('r', { fences: [ledger] });
    await ledger.seal('leasehold/r', lease.fencingToken);
    expect(await rejectionOf(ledger.write(lease, () => 1))).toBeInstanceOf(StaleTokenError);
    expect(lease.isHeld()).toBe(false);
    expect(lease.signal.reason).toMatchObject({ reason: 'fenced' });
    expect(events).toEqual(['acquired', 'rejected', 'lost']);
  });
});

describe('a stale activation', () => {
  test('teaches the floor: one more acquisition in one step, above the fence, and the body runs', async () => {
    const { manager, clock, memory, store, events } = bench();
    const ledger = new MemoryFence({ clock });
    const ahead = clock.wallUs() + 60_000_000;
    await ledger.seal('leasehold/r', ahead);
    const token = await manager.run('r', { fences: [ledger] }, (lease) => {
      expect(lease.isHeld()).toBe(true);
      return lease.fencingToken;
    });
    expect(token).toBe(ahead + 1);
    expect(store.calls.acquire).toBe(2);
    expect(store.calls.release).toBe(1);
    expect(events).toEqual(['rejected', 'acquired', 'released']);
    expect((await memory.read('r', { timeoutMs: 10 }))?.fencingToken).toBe(ahead + 1);
  });

  test('what is still said of the lease that is being replaced counts for nothing', async () => {
    const { manager, clock, store, events } = bench();
    const ledger = new MemoryFence({ clock });
    await ledger.seal('leasehold/r', clock.wallUs() + 60_000_000);
    const [extended, granted, asked] = [deferred(), deferred(), deferred()];
    let activations = 0;
    const slow = brokenFence(async (grant) => {
      if (++activations === 1) await asked.promise;
      await ledger.activate(grant);
    });
    const said: unknown[] = [];
    manager.on('extended', ({ fencingToken }) => said.push(fencingToken));
    const ran = manager.run('r', { fences: [slow] }, (lease) => lease.fencingToken);
    store.once('extend', { reply: extended.promise });
    const extending = store.next('extend', 'ran');
    await clock.advanceAsync(1000);
    await extending;
    store.once('acquire', { reply: granted.promise });
    const replacing = store.next('acquire', 'ran');
    asked.resolve();
    await replacing;
    const answered = store.next('extend', 'settled');
    extended.resolve();
    await answered;
    granted.resolve();
    await clock.advanceAsync(0);
    expect(await ran).toBeGreaterThan(clock.wallUs());
    expect(said).toEqual([]);
    expect(events).toEqual(['rejected', 'acquired', 'released']);
  });

  test('keeps the tick', async () => {
    const { manager, clock } = bench();
    const ledger = new MemoryFence({ clock });
    await ledger.seal('leasehold/r', clock.wallUs() + 60_000_000);
    const tick = { job: 'nightly', at: clock.wallMs() };
    expect(await manager.tryRun('r', { fences: [ledger], tick }, () => 'ran')).toMatchObject({ ran: true });
    expect(await manager.tryRun('r', { fences: [ledger], tick }, () => 'again')).toMatchObject({
      reason: 'already-ran',
    });
  });

  test('stale again: given back as not started, the floor remembered, and the error says so', async () => {
    const { manager, clock, memory } = bench();
    const ledger = new MemoryFence({ clock });
    let floor = clock.wallUs() + 60_000_000;
    await ledger.seal('leasehold/r', floor);
    const racing = brokenFence(async (grant) => {
      await ledger.activate(grant).finally(() => ledger.seal('leasehold/r', (floor += 1_000_000)));
    });
    const tick = { job: 'nightly', at: clock.wallMs() };
    const seen: string[] = [];
    expect(
      await rejectionOf(
        manager.run(
          'r',
          { fences: [brokenFence((grant) => sealThenActivate(ledger, grant)), racing].slice(0, 1), tick },
          () => seen.push('body'),
        ),
      ),
    ).toBeInstanceOf(StaleTokenError);
    expect(seen).toEqual([]);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
    const highest = (await ledger.highest('leasehold/r'))?.fencingToken as number;
    // The next one begins above what the fence has shown, and the tick was given back.
    const token = await manager.run('r', { fences: [ledger], tick }, (lease) => lease.fencingToken);
    expect(token).toBeGreaterThan(highest);
  });

  async function sealThenActivate(ledger: MemoryFence, grant: Grant | Holding): Promise<void> {
    const { fencingToken } = grant as Grant;
    await ledger.seal('leasehold/r', fencingToken + 10);
    await ledger.activate(grant);
  }
});

describe('a fence that is down', () => {
  test.each([
    {
      name: 'throws at once',
      activate: (): Promise<void> => {
        throw new Error('sync');
      },
    },
    { name: 'rejects', activate: () => Promise.reject(new Error('async')) },
  ])('$name: given back as not started', async ({ activate }) => {
    const { manager, memory } = bench();
    const error = await rejectionOf(manager.run('r', { fences: [brokenFence(activate)] }, () => 1));
    expect(error).toBeInstanceOf(FenceUnavailableError);
    expect(error).toMatchObject({ fence: 'broken', cause: expect.any(Error) });
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('hangs: given up after activateTimeout, while the lease was kept', async () => {
    const { manager, clock, memory } = bench({ activateTimeout: '8s' });
    const outcome = outcomeOf(manager.run('r', { fences: [brokenFence(() => new Promise(() => {}))] }, () => 1));
    await clock.advanceAsync(7900);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'held' });
    await clock.advanceAsync(200);
    expect(await outcome).toMatchObject({ reason: { code: 'FENCE_UNAVAILABLE' } });
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('a lease that is lost during the activation never comes to a body', async () => {
    const { manager, clock, store } = bench({ activateTimeout: '9s' });
    const gate = deferred();
    let ran = false;
    const outcome = outcomeOf(manager.run('r', { fences: [brokenFence(() => gate.promise)] }, () => (ran = true)));
    await clock.advanceAsync(0);
    store.partition();
    await clock.advanceAsync(3000);
    gate.resolve();
    await clock.advanceAsync(1000);
    expect(await outcome).toMatchObject({ reason: { code: 'LEASE_LOST' } });
    expect(ran).toBe(false);
  });

  test('out of range is not taken for stale', async () => {
    const { manager, clock, memory } = bench();
    const fence = brokenFence((grant) =>
      Promise.reject(new TokenOutOfRangeError('r', (grant as Grant).fencingToken, 'fence broken')),
    );
    expect(await rejectionOf(manager.run('r', { fences: [fence] }, () => 1))).toMatchObject({
      code: 'TOKEN_OUT_OF_RANGE',
    });
    await clock.advanceAsync(0);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('two fences of one name are refused', async () => {
    const { manager, clock } = bench();
    const fences = [new MemoryFence({ clock }), new MemoryFence({ clock })];
    expect(await rejectionOf(manager.run('r', { fences }, () => 1))).toMatchObject({
      code: 'CONFIG',
      option: 'fences',
    });
    expect(LeaseManager).toBeDefined();
  });
});

describe('a fence that throws what is no error of ours', () => {
  test('is unavailable, and the message says what it said', async () => {
    const { manager } = bench();
    const fences = [brokenFence(() => Promise.reject(new Error('no such table')))];
    const error = await rejectionOf(manager.run('r', { fences }, () => 1));
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', resource: 'r' });
    expect((error as Error).message).toContain('activation failed: no such table');
  });

  test.each(unreadable)('is unavailable, and the lease is free again: %s', async (_, make) => {
    const { manager } = bench();
    const fences = [
      brokenFence(() => {
        throw make();
      }),
    ];
    expect(await rejectionOf(manager.run('r', { fences }, () => 1))).toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    expect(await manager.run('r', () => 'free')).toBe('free');
  });

  test.each(unreadable)('what a body throws comes out as it is: %s', async (_, make) => {
    const { manager, clock } = bench();
    const ledger = new MemoryFence({ clock });
    const thrown = make();
    const { itself } = await thrownBy(() =>
      manager.run('r', { fences: [ledger] }, (lease) =>
        ledger.write(lease, () => {
          throw thrown;
        }),
      ),
    );
    expect(Object.is(itself, thrown)).toBe(true);
  });
});

describe('a guard in a transaction of the body’s own', () => {
  const byGuard = { code: 'LH001' };

  test.each([
    ['of this grant', 0, { code: 'LEASE_LOST', reason: 'fenced', settled: { error: byGuard } }],
    ['of another', 1, byGuard],
  ])('that refuses is heard by the fence that made it: %s', async (_, ahead, outcome) => {
    const { manager, clock } = bench();
    const inner = new MemoryFence({ clock });
    let token = 0;
    const fence: Fence = {
      ...watched(inner, []),
      refusalOf: (error) =>
        error === byGuard
          ? new StaleTokenError(`${manager.namespace}/r`, {
              fence: inner.name,
              fencingToken: token + ahead,
              highest: { fencingToken: token + 2, leaseId: null },
            })
          : undefined,
    };
    const error = await rejectionOf(
      manager.run('r', { fences: [fence] }, (lease) => {
        token = lease.fencingToken;
        throw byGuard;
      }),
    );
    expect(error).toMatchObject(outcome);
  });

  test('is no business of a fence that cannot say', async () => {
    const { manager, clock } = bench();
    const fence: Fence = {
      ...watched(new MemoryFence({ clock }), []),
      refusalOf: () => {
        throw new Error('cannot say');
      },
    };
    const own = new Error('the body’s own');
    expect(await rejectionOf(manager.run('r', { fences: [fence] }, () => Promise.reject(own)))).toBe(own);
  });
});
