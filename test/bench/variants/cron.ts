// Tasks of node-cron with and without a lease, on alternate seconds of the same process.
import { leasedCron, type LeasedNodeCron } from '@leasehold/cron';
import { Redis } from 'ioredis';
import nodeCron, { type ScheduledTask } from 'node-cron';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Side } from '../side.ts';

export interface CronSetup {
  readonly url: string;
  /** So many tasks of each kind, for more samples; none waits for another. */
  readonly jobs: number;
}

export interface Ticks {
  readonly name: string;
  /** From the second that the schedule names to the first line of the task, ms; of each tick that was run. */
  readonly lateMs: readonly number[];
}

type Body = (context: { date: Date }) => void;

interface Kind {
  readonly name: string;
  /** In each instance of the fleet. */
  schedule(expression: string, name: string, body: Body): readonly ScheduledTask[];
  close(): Promise<unknown> | void;
}

const nowMs = (): number => performance.timeOrigin + performance.now();

function leased(name: string, fleet: readonly LeasedNodeCron[]): Kind {
  return {
    name,
    schedule: (expression, job, body) =>
      fleet.map((cron) => cron.schedule(expression, body, { name: job, timezone: 'UTC' })),
    close: () => Promise.all(fleet.map((cron) => cron.shutdown())),
  };
}

/** What people write instead: who has set the key of this tick runs it. */
function distributed(url: string, instances: number): Kind {
  const client = new Redis(url);
  const runCoordinator = {
    shouldRun: async (key: string, ttlMs: number) => (await client.set(`cron:${key}`, '1', 'PX', ttlMs, 'NX')) === 'OK',
  };
  return {
    name: `node-cron distributed, ${instances} instances`,
    schedule: (expression, name, body) =>
      Array.from({ length: instances }, () =>
        nodeCron.schedule(expression, body, {
          name,
          timezone: 'UTC',
          distributed: true,
          distributedLease: 900,
          runCoordinator,
        }),
      ),
    close: () => client.disconnect(),
  };
}

export async function open({ url, jobs }: CronSetup): Promise<Side> {
  const kinds: readonly Kind[] = [
    {
      name: 'plain node-cron',
      schedule: (expression, name, body) => [nodeCron.schedule(expression, body, { name, timezone: 'UTC' })],
      close() {},
    },
    leased('Leasehold, one instance', [leasedCron({ connection: url, prefix: 'alone' })]),
    leased(
      'Leasehold, three instances',
      [1, 2, 3].map(() => leasedCron({ connection: url, prefix: 'fleet' })),
    ),
    distributed(url, 3),
  ];
  const lateMs = kinds.map((): number[] => []);
  const tasks = kinds.flatMap(({ name, schedule }, index) => {
    // A second of each kind in turn.
    const seconds = Array.from({ length: 60 / kinds.length }, (_, n) => kinds.length * n + index).join(',');
    return Array.from({ length: jobs }, (_, job) =>
      schedule(`${seconds} * * * * *`, `${name.replaceAll(/[^a-z]+/gi, '-')}-${job}`, ({ date }) => {
        lateMs[index]?.push(nowMs() - date.getTime());
      }),
    ).flat();
  });
  return {
    async listen({ seconds }: { readonly seconds: number }): Promise<Ticks[]> {
      for (const its of lateMs) its.length = 0;
      await sleep(seconds * 1000);
      return kinds.map(({ name }, index) => ({ name, lateMs: lateMs[index]?.slice() ?? [] }));
    },
    async close() {
      for (const task of tasks) await task.destroy();
      for (const { close } of kinds) await close();
    },
  };
}
