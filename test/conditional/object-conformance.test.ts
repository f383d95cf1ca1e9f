import { systemClock } from '@leasehold/core';
import { fileName, objectFence, type ConditionalTx } from '@leasehold/core/conditional';
import { describeFence } from '@leasehold/core/testing';
import { expect, test } from 'vitest';

import { faults, ObjectServer } from './object-server.ts';

type Log = readonly string[];

const append = (tx: ConditionalTx<Log>, entry: string): void => tx.set([...(tx.value ?? []), entry]);

const { leftOut } = describeFence(
  'objects with ETags',
  async () => {
    const server = await ObjectServer.start();
    const path = (resource: string): string => `/bucket/${fileName(resource)}`;
    const newFence = () => objectFence<Log>({ url: (resource) => server.origin + path(resource) });
    const fence = newFence();
    return {
      fence,
      nowUs: () => systemClock.wallUs(),
      append: (tx, _resource, entry) => append(tx, entry),
      count: (tx) => tx.value?.length ?? 0,
      entries: async (resource) => {
        const body = server.get(path(resource));
        return body === undefined ? [] : ((JSON.parse(body) as { value: Log | null }).value ?? []);
      },
      second: async () => newFence(),
      loseAnswer: async () => void server.faults.PUT.push(faults.loseAnswer),
      loseRequest: async () => void server.faults.PUT.push(faults.loseRequest),
      abandon: (grant, entry) =>
        new Promise((resolve, reject) => {
          // Its owner stands still with the request in its hand.
          const stops = objectFence<Log>({
            url: (resource) => server.origin + path(resource),
            fetch: (url, init) => {
              if (init.method === 'GET') return fetch(url, init);
              resolve();
              return new Promise(() => {});
            },
          });
          stops.write(grant, (tx) => append(tx, entry)).catch(reject);
        }),
      close: () => server[Symbol.asyncDispose](),
    };
  },
  ['second', 'count', 'loseAnswer', 'loseRequest', 'abandon'],
);

test('objects have the means for every case', () => {
  expect(leftOut).toEqual([]);
});
