// Acquire + release, and `run` with everything, against the floor: SET NX PX and a compare-and-delete over ioredis.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { startRedis } from '../support/redis-server.ts';
import { interleave, show, type Variant } from './interleave.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? '25');
const COUNT = Number(process.env['COUNT'] ?? '1000');

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const client = new Redis(server.url);
const COMPARE_AND_DELETE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
client.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: COMPARE_AND_DELETE });
const compareAndDelete = (
  client as unknown as { compareAndDelete(key: string, value: string): Promise<unknown> }
).compareAndDelete.bind(client);

const leases = new LeaseManager({ store: redisStore(server.url) });

function inFlight(name: string, width: number, once: (index: number) => Promise<unknown>): Variant {
  return {
    name,
    async round(count) {
      let next = 0;
      const worker = async (): Promise<void> => {
        for (let index = next++; index < count; index = next++) await once(index % width);
      };
      await Promise.all(Array.from({ length: width }, worker));
    },
  };
}

async function floor(index: number): Promise<void> {
  const value = randomBytes(16).toString('hex');
  const key = `floor:${index}`;
  if ((await client.set(key, value, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('the floor was busy');
  await compareAndDelete(key, value);
}

async function acquireAndRelease(index: number): Promise<void> {
  const lease = await leases.acquire(`r${index}`);
  await lease.release();
}

async function run(index: number): Promise<void> {
  await leases.run(`r${index}`, () => index);
}

for (const width of [1, 100]) {
  const results = await interleave(
    [
      inFlight('floor: SET NX PX + EVALSHA', width, floor),
      inFlight('acquire + release', width, acquireAndRelease),
      inFlight('run', width, run),
    ],
    ROUNDS,
    COUNT,
  );
  show(`${width} in flight on distinct names (${ROUNDS} rounds of ${COUNT})`, results);
}
await leases.close();
client.disconnect();
