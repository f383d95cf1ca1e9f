/** The numbers of writes, at the script: whatever is sent again, in whatever order, is carried out once. */

import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

// Not public: what a client sends again, here in an order of our own.
import { settleArgs, settleScript } from '../../packages/core/src/redis/scripts/fence-settle.ts';
import { writeArgs, writeScript } from '../../packages/core/src/redis/scripts/fence-write.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  client = await connectRedis(server.url);
  for (const { lua } of [writeScript, settleScript]) await client.script('LOAD', lua);
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

interface Step {
  readonly does: 'write' | 'settle';
  readonly number: number;
  /** How many numbers before it still wait. */
  readonly behind: number;
}

/** One fence object's requests to one fence. */
class Requests {
  readonly key = uniqueName('fence');
  readonly log: string = uniqueName('log');
  readonly #grant = { resource: 'a/b', fencingToken: 1_700_000_000_000_000, leaseId: 'a' };

  async send({ does, number, behind }: Step, id = 'x'): Promise<unknown> {
    const numbered = { id, number, lowest: Math.max(1, number - behind) };
    const args =
      does === 'write'
        ? writeArgs(this.key, this.#grant, numbered, [], [['RPUSH', this.log, `${id}${number}`]])
        : settleArgs(this.key, this.#grant, numbered);
    const [kind] = (await client.call('EVALSHA', ...args)) as [string];
    return kind;
  }

  written(): Promise<string[]> {
    return client.lrange(this.log, 0, -1);
  }
}

describe('the numbers of writes', () => {
  test('what still waits is known, what has its answer is over', async () => {
    const requests = new Requests();
    const write = (number: number, lowest: number) => requests.send({ does: 'write', number, behind: number - lowest });
    for (const number of [4, 5, 6]) expect(await write(number, 4)).toBe('done');
    // The answer to 4 has arrived, and those to 5 and 6 have not.
    expect(await write(7, 5)).toBe('done');
    for (const number of [5, 6, 7]) expect(await write(number, 5), `${number} again`).toBe('again');
    expect(await write(4, 4)).toBe('over');
    // Out of turn, and later than the next.
    expect(await write(9, 6)).toBe('done');
    expect(await write(8, 6)).toBe('done');
    expect(await write(5, 5)).toBe('over');
    for (const number of [6, 7, 8, 9]) expect(await write(number, 6), `${number} again`).toBe('again');
    expect(await requests.written()).toEqual(['x4', 'x5', 'x6', 'x7', 'x9', 'x8']);
  });

  test('numbers of two fence objects have nothing to do with one another', async () => {
    const requests = new Requests();
    for (const id of ['x', 'y', 'xy'])
      expect(await requests.send({ does: 'write', number: 1, behind: 0 }, id)).toBe('done');
    for (const id of ['x', 'y', 'xy'])
      expect(await requests.send({ does: 'write', number: 1, behind: 0 }, id)).toBe('again');
    expect(await requests.written()).toEqual(['x1', 'y1', 'xy1']);
  });

  test('in any order, any number of times', async () => {
    const steps = fc.array(
      fc.record<Step>({
        does: fc.constantFrom('write', 'write', 'write', 'settle'),
        number: fc.integer({ min: 1, max: 120 }),
        behind: fc.integer({ min: 0, max: 12 }),
      }),
      { maxLength: 60 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const requests = new Requests();
        const known = new Set<number>();
        const written: string[] = [];
        let lowest = 0;
        for (const step of sequence) {
          const { does, number } = step;
          let expected = does === 'write' ? 'done' : 'void';
          if (number < lowest) expected = 'over';
          else if (known.has(number)) expected = 'again';
          else {
            lowest = Math.max(lowest, number - step.behind);
            known.add(number);
            if (does === 'write') written.push(`x${number}`);
          }
          expect(await requests.send(step), JSON.stringify(step)).toBe(expected);
        }
        expect(await requests.written()).toEqual(written);
      }),
      { numRuns: 100 },
    );
  });
});
