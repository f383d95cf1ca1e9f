import { describe, expect, test } from 'vitest';

import { systemClock } from '../../src/clock.ts';
import { conditionalFence, type ConditionalOptions } from '../../src/conditional/fence.ts';
import { ConfigError, FenceUnavailableError } from '../../src/errors.ts';
import type { Grant } from '../../src/fence/fence.ts';
import { newLeaseId, unique } from '../../src/testing/unique.ts';
import { Cells } from './cells.ts';
import { append, fenceOver, type LogTx } from './subject.ts';

function newGrant(resource = `test/${unique('r')}`): Grant {
  return { resource, fencingToken: systemClock.wallUs(), leaseId: newLeaseId() };
}

describe('the cell', () => {
  test('holds mark and value together, and each change has an id of its own', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    const ids: (string | undefined)[] = [];
    for (const step of [() => fence.activate(grant), () => fence.write(grant, (tx) => append(tx, 'one'))]) {
      await step();
      ids.unshift(cells.cell(grant.resource)?.writeId);
    }
    expect(cells.cell(grant.resource)).toEqual({ ...grant, writeId: ids[0], recent: [ids[1]], value: ['one'] });
    for (let index = 0; index < 30; index++) await fence.write(grant, (tx) => tx.set([String(index)]));
    expect(new Set(cells.cell(grant.resource)?.recent).size).toBe(16);
  });

  test('an activation leaves the value as it is, and a seal, too', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    await fence.write(grant, (tx) => append(tx, 'one'));
    await fence.activate(newGrant(grant.resource));
    await fence.seal(grant.resource, systemClock.wallUs());
    expect(cells.entries(grant.resource)).toEqual(['one']);
  });

  test('a grant that is admitted already sends nothing for its activation, nor for a body that sets nothing', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    expect(await fence.write(grant, (tx) => tx.value)).toBeNull();
    expect(cells.cell(grant.resource)).toMatchObject({ ...grant, value: null });
    const { sent } = cells;
    await fence.activate(grant);
    expect(await fence.write(grant, () => 'read only')).toBe('read only');
    expect(cells.sent).toBe(sent);
  });

  test.each([
    ['text', 'some text'],
    ['another program’s data', { balance: 7 }],
    ['no token', { resource: 'test/x', fencingToken: 0, leaseId: 'a', writeId: 'b', recent: [], value: null }],
    ['a token as text', { resource: 'test/x', fencingToken: '7', leaseId: 'a', writeId: 'b', recent: [], value: null }],
    ['no leaseId', { resource: 'test/x', fencingToken: 7, leaseId: '', writeId: 'b', recent: [], value: null }],
    ['no writeId', { resource: 'test/x', fencingToken: 7, leaseId: 'a', recent: [], value: null }],
    ['no list', { resource: 'test/x', fencingToken: 7, leaseId: 'a', writeId: 'b', value: null }],
    ['no value', { resource: 'test/x', fencingToken: 7, leaseId: 'a', writeId: 'b', recent: [] }],
    ['the cell of another', { resource: 'test/y', fencingToken: 7, leaseId: 'a', writeId: 'b', recent: [], value: 1 }],
  ])('what is no cell of the resource admits nobody: %s', async (_, found) => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    cells.put('test/x', found);
    const calls = [
      () => fence.activate(newGrant('test/x')),
      () => fence.write(newGrant('test/x'), (tx) => append(tx, 'one')),
      () => fence.seal('test/x', 9),
      () => fence.highest('test/x'),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    }
    expect(cells.cell('test/x')).toEqual(found);
  });
});

describe('the body', () => {
  test('sees its own change', async () => {
    const fence = fenceOver(new Cells());
    const seen = await fence.write(newGrant(), (tx) => {
      append(tx, 'one');
      append(tx, 'two');
      return tx.value;
    });
    expect(seen).toEqual(['one', 'two']);
  });

  test('can not set what is no value, nor anything when it is over', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    let kept: LogTx | undefined;
    await fence.write(grant, (tx) => void (kept = tx));
    expect(() => kept?.set(['late'])).toThrow(ConfigError);
    const write = fence.write(grant, (tx) => tx.set(undefined as never));
    await expect(write).rejects.toThrow('CONFIG: tx.set: got undefined');
    expect(cells.entries(grant.resource)).toEqual([]);
  });

  test.each([[() => {}], [Symbol('x')], [7n]])('can not set what is no data: %o', async (value) => {
    const write = fenceOver(new Cells()).write(newGrant(), (tx) => tx.set(value as never));
    await expect(write).rejects.toThrow(/^CONFIG: tx.set: got /);
  });

  test('of a write inside another of the same lease is refused, but not in what outlives the body', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    const write = (entry: string): Promise<void> => fence.write(grant, (tx) => append(tx, entry));
    let outlives: Promise<void> = Promise.resolve();
    let end = (): void => {};
    const over = new Promise<void>((resolve) => (end = resolve));
    await fence.write(grant, async (tx) => {
      await expect(write('inside')).rejects.toThrow('use the tx of that write');
      await fence.write(newGrant(), () => expect(write('deeper')).rejects.toThrow(ConfigError));
      append(tx, 'outside');
      outlives = over.then(() => write('afterwards'));
    });
    end();
    await outlives;
    expect(cells.entries(grant.resource)).toEqual(['outside', 'afterwards']);
  });

  test('runs once in each of many writes of one grant in one process', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const grant = newGrant();
    await fence.activate(grant);
    let bodies = 0;
    const one = (): Promise<void> => fence.write(grant, (tx) => append(tx, String(++bodies)));
    await Promise.all(Array.from({ length: 20 }, one));
    expect(bodies).toBe(20);
    expect(cells.entries(grant.resource)).toHaveLength(20);
  });

  test('a newer grant does not wait for an older one’s body', async () => {
    const cells = new Cells();
    const fence = fenceOver(cells);
    const [older, newer] = [newGrant('test/x'), newGrant('test/x')];
    let end = (): void => {};
    const write = fence.write(older, async (tx) => {
      await new Promise<void>((resolve) => (end = resolve));
      append(tx, 'older');
    });
    await fence.write(newer, (tx) => append(tx, 'newer'));
    end();
    await expect(write).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(cells.entries('test/x')).toEqual(['newer']);
  });
});

describe('the options', () => {
  const cells = new Cells();
  const sound: ConditionalOptions<readonly string[], string> = {
    atomic: true,
    read: (resource) => cells.read(resource),
    compareAndSet: (resource, version, cell) => cells.compareAndSet(resource, version, cell),
  };

  test('somebody has to say whether compareAndSet is atomic', () => {
    expect(conditionalFence(sound)).toMatchObject({ name: 'conditional', enforcing: true });
    expect(conditionalFence({ ...sound, atomic: false, name: 'table' })).toMatchObject({
      name: 'table',
      enforcing: false,
    });
    const { atomic: _, ...rest } = sound;
    expect(() => conditionalFence(rest as typeof sound)).toThrow('CONFIG: atomic: is undefined');
  });

  test.each([
    ['read', { read: undefined }],
    ['compareAndSet', { compareAndSet: 'set' }],
    ['timeout', { timeout: 0 }],
    ['timeout', { timeout: Infinity }],
    ['timeout', { timeout: 'soon' }],
    ['retries', { retries: 3 }],
  ])('%s: %o is refused', (option, wrong) => {
    expect(() => conditionalFence({ ...sound, ...wrong } as unknown as typeof sound)).toThrow(`CONFIG: ${option}: `);
  });

  test('what the place says of itself for certain ends the call', async () => {
    const config = new ConfigError('table', 'is not there');
    const refused = new FenceUnavailableError('test/x', 'table', 'was refused', undefined, 'not-written');
    for (const error of [config, refused]) {
      const fails = (): Promise<never> => Promise.reject(error);
      const [reads, sets] = [
        conditionalFence({ ...sound, read: fails }),
        conditionalFence({ ...sound, compareAndSet: fails }),
      ];
      for (const fence of [reads, sets]) await expect(fence.activate(newGrant())).rejects.toBe(error);
    }
  });

  test.each([
    ['nothing', undefined],
    ['a text', 'yes'],
    ['an object', {}],
  ])('an answer that is %s is no answer', async (_, answer) => {
    const fence = conditionalFence({ ...sound, compareAndSet: async () => answer as never });
    await expect(fence.activate(newGrant())).rejects.toThrow('CONFIG: compareAndSet: gave');
    const reader = conditionalFence({ ...sound, read: async () => answer as never });
    await expect(reader.activate(newGrant())).rejects.toMatchObject({ code: /CONFIG|FENCE_UNAVAILABLE/ });
  });
});
