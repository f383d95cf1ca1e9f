import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { acquireOf, call, cancelOf, leaseId, releaseOf } from './requests.ts';

// What the keys hold, and what the scripts do beside their replies; the contract itself is in test/conformance.
const WEEK_MS = 7 * 24 * 60 * 60 * 1000;

let server: RedisServer;
let raw: Redis;
let prefix: string;
let store: ReturnType<typeof redisStore>;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  raw = await connectRedis(server.url);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

beforeEach(() => {
  prefix = uniqueName('records');
  store = redisStore(server.url, { prefix });
});

afterEach(() => store.close());

const key = (resource: string, rest = ''): string => `${prefix}:{${resource}}${rest}`;
const record = (resource: string) => raw.hgetall(key(resource));

const TERM = ['state', 'ttl_ms', 'extensions', 'extended_us', 'until_us'] as const;
const termOf = async (resource: string): Promise<Record<string, string>> => {
  const parts = (await record(resource))['term']?.split(' ') ?? [];
  return Object.fromEntries(TERM.map((part, at) => [part, parts[at] ?? '']));
};
/** Writes a part of the term, or another field. */
async function plant(resource: string, field: string, value: string): Promise<void> {
  const term = await termOf(resource);
  if (!(field in term)) await raw.hset(key(resource), field, value);
  else await raw.hset(key(resource), 'term', Object.values({ ...term, [field]: value }).join(' '));
}

/** The payloads that arrive at a channel. */
async function listen(channel: string) {
  const client = await connectRedis(server.url);
  await client.subscribe(channel);
  const heard: string[] = [];
  const waiting: ((message: string) => void)[] = [];
  client.on('message', (_, message) => {
    heard.push(message);
    waiting.shift()?.(message);
  });
  return {
    heard,
    next: () => new Promise<string>((resolve) => void waiting.push(resolve)),
    [Symbol.dispose]: () => client.disconnect(),
  };
}

describe('a figure that is none', () => {
  const bad = ['nan', '-nan', 'inf', '1e300', '-5', '9'.repeat(40), 'x', ''];

  test('makes the record foreign: no lease is told stale, released, extended or taken by it, and it is left alone', async () => {
    for (const field of ['fencing_token', 'term', 'state', 'ttl_ms', 'until_us']) {
      await Promise.all(
        bad.map(async (value) => {
          const held = acquireOf(`${field}-${value}`);
          const granted = await store.acquire(held, call);
          if (granted.kind !== 'granted') throw new Error(granted.kind);
          const { resource, leaseId: id } = held;
          await plant(resource, field, value);
          const planted = await record(resource);
          const foreign = { code: 'FOREIGN_KEY' };
          await expect(store.read(resource, call), `${resource}: read`).rejects.toMatchObject(foreign);
          await expect(store.acquire(acquireOf(resource), call), `${resource}: acquire`).rejects.toMatchObject(foreign);
          await expect(store.release(releaseOf(held), call), `${resource}: release`).rejects.toMatchObject(foreign);
          const force = { resource, leaseId: id, fencingToken: granted.fencingToken, extensions: 0 };
          const forced = store.forceRelease({ ...force, elapsedMs: 0, floor: 0, operator: 'me', reason: 'x' }, call);
          await expect(forced, `${resource}: force`).rejects.toMatchObject(foreign);
          if (field !== 'fencing_token') {
            const [extended] = await store.extend([{ resource, leaseId: id, ttlMs: 30_000 }], call);
            expect(extended, `${resource}: extend`).toMatchObject({ verdict: 'foreign' });
          }
          expect(await store.evidence(resource, null, call), resource).toMatchObject({
            shape: { known: true, value: { kind: 'foreign' } },
          });
          expect(await record(resource)).toEqual(planted);
        }),
      );
    }
  });

  test('of the times and the count is not told to people as one, and harms no other lease that is extended with it', async () => {
    for (const field of ['acquired_us', 'extended_us', 'extensions']) {
      const held = acquireOf(`people-${field}`);
      await store.acquire(held, call);
      await plant(held.resource, field, 'nan');
      await expect(store.read(held.resource, call), field).rejects.toMatchObject({ code: 'FOREIGN_KEY' });
      expect(await store.evidence(held.resource, null, call)).toMatchObject({ shape: { value: { kind: 'foreign' } } });
    }
    const counted = acquireOf('counted');
    const beside = acquireOf('beside');
    await Promise.all([store.acquire(counted, call), store.acquire(beside, call)]);
    await plant('counted', 'extensions', '9'.repeat(40));
    const items = [counted, beside].map(({ resource, leaseId: id }) => ({ resource, leaseId: id, ttlMs: 30_000 }));
    const verdicts = await store.extend(items, call);
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(['foreign', 'extended']);
  });
});

test('an owner and a term that disagree let nobody in, whatever was written by hand', async () => {
  const free = acquireOf('free');
  await store.acquire(free, call);
  await store.release(releaseOf(free), call);
  await raw.hset(key('free'), 'owner', 'somebody');
  const held = acquireOf('held');
  await store.acquire(held, call);
  await raw.hset(key('held'), 'owner', '');
  for (const request of [free, held]) {
    const { resource } = request;
    const foreign = { code: 'FOREIGN_KEY' };
    await expect(store.acquire(acquireOf(resource), call), resource).rejects.toMatchObject(foreign);
    await expect(store.read(resource, call), resource).rejects.toMatchObject(foreign);
    await expect(store.release(releaseOf(request), call), resource).rejects.toMatchObject(foreign);
    const evidence = await store.evidence(resource, null, call);
    expect(evidence, resource).toMatchObject({ shape: { value: { kind: 'foreign' } } });
  }
  const items = [free, held].map(({ resource, leaseId: id }) => ({ resource, leaseId: id, ttlMs: 30_000 }));
  // Whoever has it still has it: the term says so, and nobody else can write another one.
  expect(await store.extend(items, call)).toMatchObject([{ verdict: 'foreign' }, { verdict: 'extended' }]);
});

test('a term that is damaged, or of no kind, makes the record foreign to all, held or free', async () => {
  const [extended, until] = [-10, 20].map((s) => String((Date.now() + s * 1000) * 1000)) as [string, string];
  const parts = { state: '', ttl: '30000', count: '0', extended, until };
  const bad: Partial<typeof parts>[] = [
    ...['x', `+${until.slice(1)}`, '             inf', '            1e17', '0x07ffffffffffff', '9007199254740993'].map(
      (odd) => ({ until: odd }),
    ),
    ...['nan', `-${extended.slice(1)}`, 'x'.repeat(16), `${extended} ${extended}`].map((odd) => ({ extended: odd })),
    ...['nan', '30000.5', '-1', ' 30000', ''].map((odd) => ({ ttl: odd })),
    ...['nan', '1.5', '-1', ''].map((odd) => ({ count: odd })),
    ...['Held', '', 'free', ' held'].map((odd) => ({ state: odd })),
  ];
  const former = ['ttl_ms', '30000', 'expires_us', until, 'extended_us', extended, 'extensions', '0', 'revoked', ''];
  const cases = ['held', 'over'].flatMap((state) =>
    [undefined, ...bad].map((odd) => ({
      id: leaseId(),
      owner: state === 'held' ? 'me' : '',
      term: odd === undefined ? former : ['term', Object.values({ ...parts, state, ...odd }).join(' ')],
    })),
  );
  await Promise.all(
    cases.map(async ({ id, owner, term }) => {
      const resource = `damaged-${id}`;
      const why = `${owner}: ${term.join(' ')}`;
      const fields = ['owner', owner, 'owner_json', '{}', 'lease_id', id, 'fencing_token', extended, ...term];
      await raw.hset(key(resource), ...fields);
      const planted = await record(resource);
      const foreign = { code: 'FOREIGN_KEY' };
      await expect(store.acquire(acquireOf(resource), call), why).rejects.toMatchObject(foreign);
      await expect(store.read(resource, call), why).rejects.toMatchObject(foreign);
      expect(await store.extend([{ resource, leaseId: id, ttlMs: 30_000 }], call), why).toMatchObject([
        { verdict: 'foreign' },
      ]);
      expect(await record(resource), why).toEqual(planted);
    }),
  );
});

test('a batch of every kind: each lease is judged by its own record', async () => {
  const kinds = ['usual', 'short', 'long', 'revoked', 'over', 'forced', 'expired', 'ahead', 'stolen', 'next'] as const;
  const requests = kinds.map((kind) => acquireOf(kind));
  const leaseOf = (kind: (typeof kinds)[number]) => requests[kinds.indexOf(kind)] ?? acquireOf(kind);
  for (const request of requests) await store.acquire(request, call);
  const why = { operator: 'me', reason: 'x' };
  await store.revoke({ ...leaseOf('revoked'), ...why }, call);
  await store.release(releaseOf(leaseOf('over')), call);
  const { fencingToken = 0 } = (await store.read('forced', call)) ?? {};
  const force = { ...leaseOf('forced'), fencingToken, extensions: 0, elapsedMs: null, floor: 0 };
  await store.forceRelease({ ...force, ...why }, call);
  await plant('expired', 'until_us', String((Date.now() - 1000) * 1000));
  await plant('ahead', 'until_us', String((Date.now() + 3_600_000) * 1000));
  await raw.hset(key('stolen'), 'lease_id', leaseId());
  const ttls: Record<string, number> = { short: 1000, long: 90_000 };
  const items = kinds.map((kind) => ({ ...leaseOf(kind), ttlMs: ttls[kind] ?? 30_000, ownerJson: '{"of":"now"}' }));
  expect(await store.extend(items, call)).toMatchObject([
    { verdict: 'extended', remainingMs: 30_000 },
    { verdict: 'extended' },
    { verdict: 'extended', remainingMs: 90_000 },
    { verdict: 'revoked' },
    { verdict: 'lost', reason: 'released' },
    { verdict: 'lost', reason: 'force-released' },
    { verdict: 'lost', reason: 'expired' },
    { verdict: 'extended', remainingMs: 30_000 },
    { verdict: 'lost', reason: 'superseded' },
    { verdict: 'extended', remainingMs: 30_000 },
  ]);
  const ttlOf = async (kind: string) => {
    const its = await termOf(kind);
    return [its['ttl_ms'], (Number(its['until_us']) - Number(its['extended_us'])) / 1000, its['extensions']];
  };
  expect(await ttlOf('usual')).toEqual(['30000', 30_000, '1']);
  expect(await ttlOf('next')).toEqual(['30000', 30_000, '1']);
  expect(await ttlOf('ahead')).toEqual(['30000', 30_000, '1']);
  expect(await ttlOf('long')).toEqual(['90000', 90_000, '1']);
  expect(await termOf('short')).toMatchObject({ ttl_ms: '30000', extensions: '1' });
  for (const kind of ['usual', 'short', 'long', 'next']) {
    expect((await record(kind))['owner_json'], kind).toBe('{"of":"now"}');
  }
  await store.extend([{ ...leaseOf('next'), ttlMs: 90_000 }], call);
  expect(await ttlOf('next')).toEqual(['90000', 90_000, '2']);
  for (const kind of ['revoked', 'over', 'forced', 'expired', 'stolen']) {
    expect(await termOf(kind), kind).toMatchObject({ extensions: '0' });
    expect((await record(kind))['owner_json'], kind).not.toBe('{"of":"now"}');
  }
});

describe('the record', () => {
  test('of a held lease: whole numbers, no TTL, no other key', async () => {
    const acquisition = acquireOf('reports');
    const granted = await store.acquire(acquisition, call);
    const fields = await record('reports');
    expect(fields).toMatchObject({
      owner: acquisition.owner.line,
      owner_json: acquisition.owner.json,
      lease_id: acquisition.leaseId,
      fencing_token: granted.kind === 'granted' && String(granted.fencingToken),
      channel: '',
    });
    for (const name of ['acquired_us', 'fencing_token']) expect(fields[name]).toMatch(/^\d{16}$/);
    const acquired = Number(fields['acquired_us']);
    expect(fields['term']).toBe(`held 30000 0 ${acquired} ${acquired + 30_000_000}`);
    expect(await raw.pttl(key('reports'))).toBe(-1);
    expect(await raw.keys(`${prefix}:*`)).toEqual([key('reports')]);
  });

  test('keeps how a tenure ended, and is kept for a week once nobody owns it', async () => {
    const first = acquireOf('reports');
    await store.acquire(first, call);
    await store.revoke({ resource: 'reports', leaseId: first.leaseId, operator: 'me', reason: 'x' }, call);
    await store.release(releaseOf(first), call);
    const fields = await record('reports');
    expect(fields).toMatchObject({
      owner: '',
      lease_id: first.leaseId,
      prev_owner: first.owner.line,
      prev_reason: 'released',
    });
    expect(fields['prev_token']).toBe(fields['fencing_token']);
    expect(await termOf('reports')).toMatchObject({ state: 'over', ttl_ms: '30000', until_us: fields['prev_end'] });
    expect(await raw.pttl(key('reports'))).toBeGreaterThan(WEEK_MS - 60_000);
    await store.acquire(acquireOf('reports'), call);
    expect(await raw.pttl(key('reports'))).toBe(-1);
    expect(await termOf('reports')).toMatchObject({ state: 'held' });
  });

  test('a tombstone of a resource that has no record is forgotten after a week, and is no lease', async () => {
    const id = leaseId();
    const cancel = cancelOf({ resource: 'new', leaseId: id });
    expect(await store.cancel(cancel, call)).toEqual({ kind: 'nothing' });
    expect(await raw.pttl(key('new'))).toBeGreaterThan(WEEK_MS - 60_000);
    expect(await store.read('new', call)).toBeNull();
    expect(await store.acquire(acquireOf('new', { leaseId: id }), call)).toEqual({ kind: 'cancelled' });
    expect(await store.acquire(acquireOf('new'), call)).toMatchObject({ kind: 'granted' });
    expect(await raw.pttl(key('new'))).toBe(-1);
  });

  test('at most eight tombstones, the oldest goes first', async () => {
    const ids = Array.from({ length: 10 }, leaseId);
    for (const id of ids) {
      await store.cancel(cancelOf({ resource: 'r', leaseId: id }), call);
    }
    expect((await record('r'))['cancelled']?.split(' ').map((each) => each.split(':')[0])).toEqual(ids.slice(2));
  });

  test('an extend writes back what a shorter ttl cannot take away', async () => {
    const acquisition = acquireOf('r', { ttlMs: 60_000 });
    await store.acquire(acquisition, call);
    const before = await termOf('r');
    const [verdict] = await store.extend([{ ...acquisition, ttlMs: 1000 }], call);
    expect(verdict?.verdict === 'extended' && verdict.remainingMs).toBeGreaterThan(50_000);
    const after = await termOf('r');
    expect(after).toMatchObject({ ttl_ms: '60000', until_us: before['until_us'], extensions: '1' });
    expect(Number(after['extended_us'])).toBeGreaterThan(Number(before['extended_us']));
  });

  test('extensions are counted on from where they were, whatever the clock said before', async () => {
    const acquisition = acquireOf('r');
    await store.acquire(acquisition, call);
    await plant('r', 'extensions', '12');
    // Before September 2001.
    await plant('r', 'extended_us', '999999999999999');
    await store.extend([acquisition], call);
    expect(await termOf('r')).toMatchObject({ extensions: '13' });
  });

  test('an extend of many that meets foreign keys harms no other', async () => {
    const acquisitions = Array.from({ length: 500 }, (_, index) => acquireOf(`r${index}`));
    await Promise.all(acquisitions.map((each) => store.acquire(each, call)));
    await raw.set(key('r7'), 'a string');
    await raw.del(key('r8'), key('r9'));
    await raw.hset(key('r8'), 'colour', 'blue');
    const verdicts = await store.extend(acquisitions, call);
    expect(verdicts[7]).toEqual({ verdict: 'foreign', key: key('r7') });
    expect(verdicts[8]).toEqual({ verdict: 'foreign', key: key('r8') });
    expect(verdicts[9]).toEqual({ verdict: 'lost', reason: 'missing' });
    expect(verdicts.filter(({ verdict }) => verdict === 'extended')).toHaveLength(497);
  });

  test.each(['q', 'w', 'p'])('something foreign in place of :%s is refused and left alone', async (suffix) => {
    await raw.set(key('r', `:${suffix}`), 'mine');
    await expect(store.acquire(acquireOf('r'), call)).rejects.toMatchObject({
      code: 'FOREIGN_KEY',
      key: key('r', `:${suffix}`),
    });
    expect(await raw.keys(`${key('r')}*`)).toEqual([key('r', `:${suffix}`)]);
  });

  test('something foreign in place of a tick is refused before anything is written', async () => {
    await raw.lpush(key('r', ':tick:nightly'), 'mine');
    const tick = { job: 'nightly', at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 0 };
    await expect(store.acquire(acquireOf('r', { tick }), call)).rejects.toMatchObject({ code: 'FOREIGN_KEY' });
    expect(await store.read('r', call)).toBeNull();
  });
});

describe('ticks', () => {
  const tickOf = (at: number) => ({
    job: 'nightly',
    at,
    startingDeadlineMs: 300_000,
    maxAheadMs: 60_000,
    retry: 0,
  });

  test('the key holds the claim and what stood there before, has no TTL, and gives it back', async () => {
    const at = Date.now() - 1000;
    const first = acquireOf('r', { tick: tickOf(at) });
    await store.acquire(first, call);
    await store.release(releaseOf(first, { job: 'nightly' }), call);
    const done = await raw.hgetall(key('r', ':tick:nightly'));
    expect(done).toMatchObject({ at: String(at), status: 'done', lease_id: first.leaseId, owner: first.owner.line });

    const second = acquireOf('r', { tick: tickOf(at + 500) });
    await store.acquire(second, call);
    expect(await raw.hgetall(key('r', ':tick:nightly'))).toMatchObject({ status: 'claimed', prev_status: 'done' });
    expect(await raw.pttl(key('r', ':tick:nightly'))).toBe(-1);
    await store.release(releaseOf(second, { job: 'nightly', outcome: 'not-started' }), call);
    expect(await raw.hgetall(key('r', ':tick:nightly'))).toEqual(done);
  });

  test('an outcome once written is not given back by a late packet', async () => {
    const first = acquireOf('r', { tick: tickOf(Date.now()) });
    await store.acquire(first, call);
    await store.release(releaseOf(first, { job: 'nightly' }), call);
    await store.cancel({ ...releaseOf(first, { job: 'nightly', outcome: 'not-started' }), tombstoneMs: 0 }, call);
    expect(await raw.hget(key('r', ':tick:nightly'), 'status')).toBe('done');
  });
});

test('what is handed over: the record, its tick and its channel are those of the new owner', async () => {
  const tick = { job: 'j', at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 0 };
  const first = acquireOf('r', { tick, channel: 'first' });
  await store.acquire(first, call);
  const adopt = { ...acquireOf('r', { channel: 'second' }), from: first.leaseId, job: 'j' };
  expect(await store.adopt(adopt, call)).toMatchObject({ kind: 'granted', again: false });
  expect(await record('r')).toMatchObject({
    lease_id: adopt.leaseId,
    channel: 'second',
    prev_reason: 'handed-over',
    tick: `${adopt.leaseId} ${tick.at} j`,
  });
  expect(await raw.pttl(key('r'))).toBe(-1);
  expect(await raw.hgetall(key('r', ':tick:j'))).toMatchObject({ lease_id: adopt.leaseId, status: 'claimed' });
  await store.release(releaseOf(first, { job: 'j' }), call);
  expect(await store.ticks('r', 'j', call)).toMatchObject([{ at: tick.at, status: 'claimed' }]);
  await store.release(releaseOf(adopt, { job: 'j' }), call);
  expect(await store.ticks('r', 'j', call)).toMatchObject([{ at: tick.at, status: 'done' }]);
});

describe('messages', () => {
  test('a release tells the head to go and the second when to look; the queue does not outlive its waiters', async () => {
    using head = await listen(`${prefix}:head`);
    using second = await listen(`${prefix}:second`);
    const holder = acquireOf('r s', { ttlMs: 2000 });
    await store.acquire(holder, call);
    const waiters = [
      acquireOf('r s', { mode: 'wait', channel: `${prefix}:head`, waitRefreshMs: 1000 }),
      acquireOf('r s', { mode: 'wait', channel: `${prefix}:second`, waitRefreshMs: 4000 }),
    ] as const;
    for (const waiter of waiters) await store.acquire(waiter, call);
    await store.acquire(acquireOf('r s', { mode: 'wait', channel: '', waitRefreshMs: 1000 }), call);
    for (const suffix of [':q', ':w']) {
      const ttl = await raw.pttl(key('r%20s', suffix));
      expect(ttl).toBeGreaterThan(20_000);
      expect(ttl).toBeLessThanOrEqual(24_000);
    }
    const told = Promise.all([head.next(), second.next()]);
    await store.release(releaseOf(holder), call);
    expect(await told).toEqual([
      `go 0 ${waiters[0].leaseId} ${key('r%20s')}`,
      `look 200 ${waiters[1].leaseId} ${key('r%20s')}`,
    ]);
  });

  test('a parked process is told once, when nobody waits', async () => {
    using parked = await listen(`${prefix}:parked`);
    using later = await listen(`${prefix}:later`);
    const holder = acquireOf('r');
    await store.acquire(holder, call);
    expect(await store.acquire(acquireOf('r', { mode: 'park', channel: `${prefix}:parked` }), call)).toMatchObject({
      kind: 'busy',
      reason: 'held',
    });
    await store.acquire(acquireOf('r', { mode: 'park', channel: `${prefix}:later` }), call);
    expect(await raw.pttl(key('r', ':p'))).toBeGreaterThan(50_000);
    for (const channel of [parked, later]) {
      const told = channel.next();
      await store.release(releaseOf(holder), call);
      expect(await told).toBe(`free 0 - ${key('r')}`);
      // Nothing is reserved for it.
      await store.acquire(Object.assign(holder, { leaseId: leaseId() }), call);
    }
    await store.release(releaseOf(holder), call);
    expect(await raw.exists(key('r', ':p'))).toBe(0);
    expect([parked.heard.length, later.heard.length]).toEqual([1, 1]);
  });
});

describe('that somebody may be there', () => {
  const crowd = () => raw.hget(key('r'), 'crowd');

  test('is written with the first who waits or parks, and goes when nobody is found', async () => {
    for (const mode of ['wait', 'park'] as const) {
      const holder = acquireOf('r');
      await store.acquire(holder, call);
      expect(await crowd(), mode).toBeNull();
      const asker = acquireOf('r', { mode, channel: `${prefix}:channel` });
      await store.acquire(asker, call);
      expect(await crowd(), mode).toBe('1');
      await store.release(releaseOf(holder), call);
      if (mode === 'wait') {
        expect(await store.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'busy', reason: 'turn' });
        await store.acquire(asker, call);
        await store.release(releaseOf(asker), call);
      }
      const next = acquireOf('r');
      expect(await store.acquire(next, call)).toMatchObject({ kind: 'granted' });
      await store.release(releaseOf(next), call);
      expect(await crowd(), mode).toBeNull();
    }
  });

  test('is written again by who comes after the last one went, and by whom the owner was granted beside', async () => {
    const holder = acquireOf('r', { ttlMs: 20_000 });
    await store.acquire(holder, call);
    const gone = acquireOf('r', { mode: 'wait' });
    await store.acquire(gone, call);
    await store.cancel(cancelOf(gone, { tombstoneMs: 0 }), call);
    using channel = await listen(`${prefix}:channel`);
    const told = channel.next();
    const waiter = acquireOf('r', { mode: 'wait', channel: `${prefix}:channel` });
    await store.acquire(waiter, call);
    expect(await crowd()).toBe('1');
    await store.release(releaseOf(holder), call);
    expect(await told).toBe(`go 0 ${waiter.leaseId} ${key('r')}`);
  });

  test('need not be written for those whose record was lost', async () => {
    const holder = acquireOf('r');
    await store.acquire(holder, call);
    const [first, second] = [acquireOf('r', { mode: 'wait' }), acquireOf('r', { mode: 'wait' })];
    for (const waiter of [first, second]) await store.acquire(waiter, call);
    await raw.del(key('r'));
    expect(await store.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'busy', reason: 'turn' });
    expect(await store.acquire(first, call)).toMatchObject({ kind: 'granted' });
    await store.release(releaseOf(first), call);
    expect(await store.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'busy', reason: 'turn' });
    expect(await store.acquire(second, call)).toMatchObject({ kind: 'granted' });
  });
});

describe('the log', () => {
  test('keeps the last sixteen exceptional events, for a week; an ordinary tenure is none', async () => {
    const ordinary = acquireOf('r');
    await store.acquire(ordinary, call);
    await store.release(releaseOf(ordinary), call);
    expect(await raw.exists(key('r', ':log'))).toBe(0);
    for (let round = 0; round < 20; round++) {
      const acquisition = acquireOf('r');
      await store.acquire(acquisition, call);
      await plant('r', 'until_us', '1000');
      if (round === 19) await store.release(releaseOf(acquisition), call);
    }
    const events = (await raw.xrange(key('r', ':log'), '-', '+')).map(([, fields]) => fields[1]);
    expect(events).toEqual([...Array.from({ length: 15 }, () => 'expired'), 'lost']);
    expect(await raw.pttl(key('r', ':log'))).toBeGreaterThan(WEEK_MS - 60_000);
  });

  test('with history all keeps the last sixty-four of all kinds, with outcome, job and tick', async () => {
    const all = { history: 'all' } as const;
    for (let round = 0; round < 32; round++) {
      const ordinary = acquireOf('r', all);
      await store.acquire(ordinary, call);
      await store.release(releaseOf(ordinary, { ...all, outcome: 'failed' }), call);
    }
    expect(await raw.xlen(key('r', ':log'))).toBe(64);
    const tick = { job: 'nightly:2', at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 0 };
    const ticking = acquireOf('r', { ...all, tick });
    await store.acquire(ticking, call);
    // A release without the job: the record knows.
    await store.release(releaseOf(ticking, all), call);
    expect(await raw.xlen(key('r', ':log'))).toBe(64);
    const its = { owner: ticking.owner.line, job: 'nightly:2', tickAt: tick.at };
    expect(await store.history('r', 3, call)).toMatchObject([
      { event: 'released', detail: 'done', ...its },
      { event: 'acquired', detail: '', ...its },
      { event: 'released', detail: 'failed', job: null, tickAt: null },
    ]);
    expect(await store.history('r', Infinity, call)).toHaveLength(64);
    expect(await store.history('r', 0, call)).toEqual([]);
  });

  test('a log that is something else keeps nothing from working', async () => {
    await raw.set(key('r', ':log'), 'mine');
    await store.acquire(acquireOf('r'), call);
    await plant('r', 'until_us', '1000');
    expect(await store.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'granted' });
    expect(await raw.get(key('r', ':log'))).toBe('mine');
    await expect(store.history('r', 5, call)).rejects.toMatchObject({ code: 'FOREIGN_KEY', key: key('r', ':log') });
  });
});

test('hostile names are kept apart, and in one slot each', async () => {
  const names = ['a}b', '{x}', '%7D', '}', '{}', 'a b', 'a:q', "it's", '🔒', 'é', 'x'.repeat(256), '🔒'.repeat(64)];
  for (const name of names) {
    store.checkName('resource', name);
    const holder = acquireOf(name);
    expect(await store.acquire(holder, call)).toMatchObject({ kind: 'granted', again: false });
    await store.acquire(acquireOf(name, { mode: 'wait' }), call);
    expect(await store.extend([holder], call)).toMatchObject([{ verdict: 'extended' }]);
  }
  const keys = await raw.keys(`${prefix}:*`);
  expect(keys).toHaveLength(3 * names.length);
  expect(new Set(keys.map((each) => /\{([^}]*)\}/.exec(each)?.[1])).size).toBe(names.length);
  expect(() => store.checkName('resource', `${'x'.repeat(256)}y`)).toThrow('256');
});

describe('servers in distress', () => {
  test('a full server still extends, releases, cancels and reads, and says so when asked to grant', async () => {
    const held = acquireOf('held');
    const waiter = acquireOf('held', { mode: 'wait' });
    await store.acquire(held, call);
    await store.acquire(waiter, call);
    await raw.config('SET', 'maxmemory', '1');
    try {
      await expect(store.acquire(acquireOf('other'), call)).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        mayHaveRun: false,
        message: expect.stringContaining('OOM') as string,
      });
      expect(await store.extend([held], call)).toMatchObject([{ verdict: 'extended' }]);
      expect(await store.read('held', call)).toMatchObject({ state: 'held', waiting: 1 });
      const cancel = { ...releaseOf(waiter, { outcome: 'not-started' }), tombstoneMs: 60_000 };
      expect(await store.cancel(cancel, call)).toEqual({ kind: 'nothing' });
      expect(await store.release(releaseOf(held), call)).toEqual({ kind: 'released' });
    } finally {
      await raw.config('SET', 'maxmemory', '0');
    }
  });

  test('a release is done although nobody may be told and nothing noted', async () => {
    const user = uniqueName('mute');
    await raw.acl('SETUSER', user, 'on', '>pw', '~*', 'resetchannels', '+@all', '-publish', '-xadd');
    const mute = redisStore(server.url.replace('redis://', `redis://${user}:pw@`), { prefix });
    try {
      const holder = acquireOf('r');
      await mute.acquire(holder, call);
      const waiter = acquireOf('r', { mode: 'wait', channel: 'somebody' });
      await mute.acquire(waiter, call);
      expect(await mute.release(releaseOf(holder), call)).toEqual({ kind: 'released' });
      expect(await mute.acquire(waiter, call)).toMatchObject({ kind: 'granted' });
      await plant('r', 'until_us', '1000');
      expect(await mute.acquire(acquireOf('r'), call)).toMatchObject({ kind: 'granted' });
    } finally {
      await mute.close();
    }
  });
});
