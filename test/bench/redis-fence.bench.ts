// A fenced write against the floor: the same commands in MULTI and EXEC over the same client.
import type { Grant } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { startRedis } from '../support/redis-server.ts';
import { interleave, percentile, show, type Variant } from './interleave.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? '25');
const COUNT = Number(process.env['COUNT'] ?? '1000');

await using server = await startRedis({ args: ['--save', '', '--appendonly', 'no'] });
const ioredis = new Redis(server.url);
const nodeRedis = createClient({ url: server.url });
await nodeRedis.connect();

const grant: Grant = { resource: 'bench/stock', fencingToken: Date.now() * 1000, leaseId: 'b'.repeat(32) };
const clients = {
  ioredis: {
    fence: redisFence(ioredis),
    async multi(commands: readonly string[][]): Promise<void> {
      await ioredis.multi(commands as string[][]).exec();
    },
  },
  'node-redis': {
    fence: redisFence(nodeRedis),
    async multi(commands: readonly string[][]): Promise<void> {
      const multi = nodeRedis.multi();
      for (const command of commands) multi.addCommand(command);
      await multi.exec();
    },
  },
} as const;

/** So many writes of keys that are nobody else's. */
function writesOf(count: number, index: number): string[][] {
  return Array.from({ length: count }, (_, each) => ['hincrby', `stock:${index}`, `field ${each}`, '1']);
}

const INCREMENT = "return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";

/** Each variant with the time that each of its operations took. */
function timed(name: string, width: number, once: (index: number) => Promise<unknown>): Variant & { tookMs: number[] } {
  const tookMs: number[] = [];
  return {
    name,
    tookMs,
    async round(count) {
      let next = 0;
      const worker = async (): Promise<void> => {
        for (let index = next++; index < count; index = next++) {
          const from = performance.now();
          await once(index % width);
          tookMs.push(performance.now() - from);
        }
      };
      await Promise.all(Array.from({ length: width }, worker));
    },
  };
}

for (const [client, { fence, multi }] of Object.entries(clients)) {
  await fence.activate(grant);
  for (const width of [1, 50]) {
    for (const commands of [1, 5]) {
      const variants = [
        timed(`floor: MULTI, ${commands}, EXEC`, width, (index) => multi(writesOf(commands, index))),
        timed('fence.write', width, (index) =>
          fence.write(grant, (tx) => {
            for (const [command = '', ...args] of writesOf(commands, index)) tx.call(command, ...args);
          }),
        ),
      ];
      if (commands === 1) {
        const body = (index: number) =>
          fence.eval(grant, INCREMENT, { keys: [`stock:${index}`], args: ['field 0', 1] });
        variants.push(timed('fence.eval', width, body));
      }
      const results = await interleave(variants, ROUNDS, COUNT);
      show(
        `${client}: ${commands} command${commands > 1 ? 's' : ''}, ${width} in flight (${ROUNDS} × ${COUNT})`,
        results,
      );
      for (const { name, tookMs } of variants) {
        const p50 = percentile(
          tookMs.toSorted((a, b) => a - b),
          0.5,
        );
        console.log(`p50 ${(p50 * 1000).toFixed(0)} µs  ${name}`);
      }
    }
  }
}
ioredis.disconnect();
nodeRedis.destroy();
