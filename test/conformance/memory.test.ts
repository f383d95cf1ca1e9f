import { MemoryFence, MemoryLeaseStore, type MemoryTx } from '@leasehold/core';
import { describeFence, describeLeaseStore, fenceCases, ManualClock } from '@leasehold/core/testing';
import { expect, test } from 'vitest';

const store = describeLeaseStore(
  'memory',
  () => {
    const clock = new ManualClock();
    const memory = new MemoryLeaseStore({ clock });
    return {
      store: memory,
      messages: true,
      pass: (ms) => clock.advanceAsync(ms),
      second: async () => memory.beside(),
      flush: async () => memory.flush(),
      evict: async (resource) => memory.flush(resource),
      setField: async (resource, field, value) => {
        if (!memory.edit(resource, { [field]: value })) throw new Error(`no record of ${resource}`);
      },
      restart: async (options) => memory.restart(options),
      stepClock: async (ms) => clock.stepWall(ms),
      close: () => memory.close(),
    };
  },
  ['second', 'flush', 'evict', 'setField', 'stepClock', 'restart', 'messages'],
);

test('the cases that a memory store has no means for are these', () => {
  expect(store.leftOut).toEqual([
    'a forced release refuses what is not ours, and leaves it alone',
    'tokens grow across the promotion of a lagging replica',
    'list leaves out what is not ours',
    'something of another type under our key is refused by every operation, and left alone',
    'something of our type that is not ours is refused by every operation, and left alone',
    'one foreign key in a batch of 500 harms no other lease',
    'a full store still extends, releases, cancels and reads; only acquire fails',
    'a server that forgot its scripts answers as before',
    'a message that may not be sent turns no operation into an error',
  ]);
});

const fence = describeFence(
  'memory',
  () => {
    const clock = new ManualClock();
    const memory = new MemoryFence({ clock });
    const log = (value: unknown): readonly string[] => (Array.isArray(value) ? value : []);
    const append = (tx: MemoryTx, resource: string, entry: string): void =>
      tx.set(resource, [...log(tx.get(resource)), entry]);
    return {
      fence: memory,
      nowUs: () => clock.wallUs(),
      append,
      count: (tx, resource) => log(tx.get(resource)).length,
      entries: async (resource) => log(memory.values.get(resource)),
      // A body that never ends.
      abandon: (grant, entry) =>
        new Promise((resolve, reject) => {
          const write = memory.write(grant, (tx) => {
            append(tx, grant.resource, entry);
            resolve();
            return new Promise(() => {});
          });
          write.catch(reject);
        }),
      abandonedMs: 1000,
      close: async () => {},
    };
  },
  ['count', 'abandon'],
);

test('the cases that a memory fence has no means for are those of two fences, and of a connection', () => {
  const needs = new Set(fenceCases.filter(({ name }) => fence.leftOut.includes(name)).flatMap((each) => each.needs));
  expect(needs).toEqual(new Set(['second', 'loseAnswer', 'loseRequest']));
});
