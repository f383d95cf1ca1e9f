import { expect, test } from 'vitest';

import { diagnose, type DiagnoseOptions, type Diagnosis } from '../../src/diagnosis/index.ts';
import { MemoryFence } from '../../src/fence/memory.ts';
import { LeaseManager } from '../../src/lease/manager.ts';
import type { StoreCall } from '../../src/store/store.ts';
import { outcomeOf, Scene, TTL_MS } from './scene.ts';

function managerOf({ store, clock }: Scene): LeaseManager {
  return new LeaseManager({ store, clock, ttl: TTL_MS });
}

async function diagnosed(scene: Scene, options: DiagnoseOptions = {}, forMs = 0): Promise<Diagnosis> {
  const { value, error } = await settled(scene, options, forMs);
  if (value === undefined) throw new Error('it gave none', { cause: error });
  return value;
}

async function settled(scene: Scene, options: DiagnoseOptions, forMs: number) {
  const outcome = outcomeOf(diagnose(managerOf(scene), 'r', { probes: [], ...options }));
  await scene.clock.advanceAsync(forMs);
  await scene.clock.advanceAsync(0);
  return outcome;
}

const WHOLE_MS = TTL_MS + 2000;

test('each verdict of a life: free, held, run out, to be released, released', async () => {
  const scene = new Scene();
  const fences = [new MemoryFence({ name: 'ledger', clock: scene.clock })];
  // As long as the store is so young, nobody can say that it has not just lost its data.
  expect((await diagnosed(scene, { fences })).verdict.code).toBe('data-lost');
  await scene.clock.advanceAsync(60_000);
  expect((await diagnosed(scene, { fences })).verdict.code).toBe('free');
  const { leaseId, fencingToken, extensions } = await scene.acquire('one');
  await fences[0]?.activate({ resource: `${scene.store.namespace}/r`, leaseId, fencingToken });
  expect((await diagnosed(scene, { fences })).verdict.code).toBe('held');
  await scene.clock.advanceAsync(TTL_MS);
  const over = await diagnosed(scene, { fences });
  expect(over.verdict).toMatchObject({ code: 'expired', allowed: { acquire: true, forceRelease: { allowed: false } } });
  const seen = await diagnosed(scene, { fences, observe: true }, WHOLE_MS);
  expect(seen.verdict).toMatchObject({ code: 'stale-suspect', allowed: { forceRelease: { allowed: true } } });
  expect(seen.observation).toMatchObject({ state: 'unchanged' });
  const request = { resource: 'r', leaseId, fencingToken, extensions, elapsedMs: 1000, floor: 0 };
  await scene.store.forceRelease({ ...request, operator: 'ann', reason: 'drill' }, scene.call);
  expect((await diagnosed(scene, { fences })).verdict.code).toBe('released');
});

test('a fence knows the lease by a token of its run, which is below that of the record if the lease may linger', async () => {
  const scene = new Scene();
  const fence = new MemoryFence({ name: 'ledger', clock: scene.clock });
  const fences = [fence];
  const manager = new LeaseManager({ store: scene.store, clock: scene.clock, ttl: TTL_MS, linger: 1000 });
  const told = async (): Promise<string | undefined> =>
    (await diagnosed(scene, { fences })).evidence.find(({ name }) => name === 'fences')?.value;
  await manager.run('r', { fences }, async () => expect(await told()).toContain('= this lease'));
  await manager.run('r', { fences }, async () => expect(await told()).toContain('= this lease'));
  await manager.close();
  await scene.acquire('another');
  expect(await told()).toContain('below this lease');
});

test('it never writes, to no store and to no fence', async () => {
  const scene = new Scene();
  await scene.acquire('one');
  const fence = new MemoryFence({ clock: scene.clock });
  const before = { ...scene.store.calls };
  await diagnosed(scene, { fences: [fence], observe: true }, WHOLE_MS);
  const asked = Object.entries(scene.store.calls).filter(
    ([operation, times]) => times !== before[operation as keyof typeof before],
  );
  expect(asked.map(([operation]) => operation).filter((name) => name !== 'read' && name !== 'evidence')).toEqual([]);
  expect(await fence.highest(`${scene.store.namespace}/r`)).toBeNull();
});

test('it is plain data, and the same after JSON', async () => {
  const scene = new Scene();
  await scene.acquire('one');
  const found = await diagnosed(scene);
  expect(found.schema).toBe('leasehold/diagnosis/v1');
  const again = JSON.parse(JSON.stringify(found)) as Diagnosis;
  expect(again.verdict).toEqual(found.verdict);
  expect(again.evidence).toEqual(found.evidence);
  for (const { id, value, source, meaning } of found.evidence) {
    expect(id).toMatch(/^E\d+$/);
    expect([value, source, meaning].every((text) => text !== '' && !text.includes('\n'))).toBe(true);
  }
});

test('a store that does not answer is unknown and forbids everything, from the beginning or while it is watched', async () => {
  const scene = new Scene();
  await scene.acquire('one');
  scene.store.once('read', { request: 'lost' });
  const early = await diagnosed(scene, {}, 5000);
  const outcome = outcomeOf(diagnose(managerOf(scene), 'r', { probes: [], observe: true }));
  await scene.clock.advanceAsync(1000);
  scene.store.set('read', { request: 'lost' });
  await scene.clock.advanceAsync(5000);
  for (const found of [early, outcome.value]) {
    expect(found?.verdict).toMatchObject({ code: 'unknown', allowed: { acquire: false, revoke: false } });
    expect(found?.verdict.allowed.forceRelease.allowed).toBe(false);
    expect(found?.verdict.sentence).toContain('not "free"');
  }
  // What was not read is not told as "none", nor as held by nobody.
  expect(early.evidence[0]).toMatchObject({ id: 'E1', value: 'not known' });
  for (const { missing } of [early.verdict.allowed.forceRelease, early.verdict.allowed.forceReleaseUnfenced]) {
    expect(missing).toEqual([expect.stringContaining('the store cannot be relied on')]);
  }
});

test('a lease that was taken by another at the end of the watch is not judged by what was seen of the one before', async () => {
  const scene = new Scene();
  await scene.acquire('one');
  let reads = 0;
  const read = scene.store.read.bind(scene.store);
  scene.store.read = async (resource: string, call: StoreCall) => {
    const record = await read(resource, call);
    reads++;
    // Where the watch is over: after it the record is read once more.
    if (record !== null && reads > 1 && (record.nowUs - record.extendedUs) / 1000 >= TTL_MS + 1000) {
      scene.store.read = read;
      await scene.acquire('two');
    }
    return record;
  };
  const found = await diagnosed(scene, { observe: true }, WHOLE_MS);
  expect(found.lease?.leaseId).toBe('two');
  expect(found).toMatchObject({ observation: { state: 'changed' }, verdict: { code: 'held' } });
});

test('a fence that throws or never answers is silent, and no error', async () => {
  const scene = new Scene();
  await scene.acquire('one');
  const fence = new MemoryFence({ name: 'ledger', clock: scene.clock });
  fence.highest = () => Promise.reject(new Error('down'));
  const found = await diagnosed(scene, { fences: [fence] });
  expect(found.fences).toEqual([{ name: 'ledger', enforcing: true, highest: undefined, sealed: false }]);
  expect(found.verdict.code).toBe('held');
});

test('options that are none, and names that none can have, are refused', async () => {
  const scene = new Scene();
  const manager = managerOf(scene);
  await expect(diagnose(manager, 'r', { watch: true } as object)).rejects.toMatchObject({ option: 'watch' });
  await expect(diagnose(manager, 'r', { observe: 'yes' } as object)).rejects.toMatchObject({ option: 'observe' });
  await expect(diagnose(manager, '')).rejects.toMatchObject({ code: 'CONFIG' });
});
