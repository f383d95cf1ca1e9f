// A fenced write, and the same commands in MULTI and EXEC over the same client.
import type { Grant } from '@leasehold/core';
import { redisFence, type RedisFence } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';

import { inFlight, type Side } from '../side.ts';

export interface FenceSetup {
  readonly url: string;
  readonly client: 'ioredis' | 'node-redis';
  readonly variant: 'floor' | 'write' | 'eval';
}

export interface FenceSlice {
  readonly count: number;
  readonly width: number;
  readonly commands: number;
}

const INCREMENT = "return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";

interface Client {
  readonly fence: RedisFence;
  multi(commands: readonly string[][]): Promise<unknown>;
  close(): void;
}

async function connect({ url, client }: FenceSetup): Promise<Client> {
  if (client === 'ioredis') {
    const ioredis = new Redis(url);
    return {
      fence: redisFence(ioredis),
      multi: (commands) => ioredis.multi(commands as string[][]).exec(),
      close: () => ioredis.disconnect(),
    };
  }
  const nodeRedis = createClient({ url });
  await nodeRedis.connect();
  return {
    fence: redisFence(nodeRedis),
    multi(commands) {
      const multi = nodeRedis.multi();
      for (const command of commands) multi.addCommand(command);
      return multi.exec();
    },
    close: () => nodeRedis.destroy(),
  };
}

/** So many writes of keys that are nobody else's. */
function writesOf(count: number, place: number): string[][] {
  return Array.from({ length: count }, (_, each) => ['hincrby', `stock:${place}`, `field ${each}`, '1']);
}

export async function open(setup: FenceSetup): Promise<Side> {
  const { fence, multi, close } = await connect(setup);
  const grant: Grant = {
    resource: `bench/${setup.client}-${setup.variant}`,
    fencingToken: Date.now() * 1000,
    leaseId: 'b'.repeat(32),
  };
  await fence.activate(grant);
  const ways: Readonly<Record<FenceSetup['variant'], (commands: number) => (place: number) => Promise<unknown>>> = {
    floor: (commands) => (place) => multi(writesOf(commands, place)),
    write: (commands) => (place) =>
      fence.write(grant, (tx) => {
        for (const [command = '', ...args] of writesOf(commands, place)) tx.call(command, ...args);
      }),
    eval: () => (place) => fence.eval(grant, INCREMENT, { keys: [`stock:${place}`], args: ['field 0', 1] }),
  };
  return {
    async slice({ count, width, commands }: FenceSlice): Promise<number[]> {
      const tookUs: number[] = [];
      await inFlight(width, count, ways[setup.variant](commands), tookUs);
      return tookUs;
    },
    close: async () => close(),
  };
}
