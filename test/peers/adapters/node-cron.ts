import { schedule } from 'node-cron';
import { clientFor } from './client.ts';
import type { Peer } from './peer.ts';

/** Long enough for a fault to have its effects before the next one. */
const TICK_SECONDS = 15;

export const nodeCron: Peer = {
  name: 'node-cron distributed',
  dependency: 'node-cron',
  configuration: `a task each ${TICK_SECONDS} s with \`distributed\`, \`noOverlap\`, \`distributedLease\` a lease, and a coordinator that does \`SET key NX PX\`. It promises one run for each tick, not one at a time: who is longer than a tick has company`,
  keys: (resource) => [`cron:*${resource}*`],
  renewMs: (leaseMs) => leaseMs / 3,
  patienceMs: () => TICK_SECONDS * 1000,
  takesCommandTimeout: false,
  async open(surroundings) {
    const { resource, leaseMs } = surroundings;
    const client = clientFor(surroundings);
    return {
      run: (section) =>
        new Promise((resolve, reject) => {
          const task = schedule(
            `*/${TICK_SECONDS} * * * * *`,
            async () => {
              // It has no word for a loss.
              await section({ isLost: () => false }).then(resolve, reject);
              await task.stop();
            },
            {
              name: resource,
              timezone: 'UTC',
              noOverlap: true,
              distributed: true,
              distributedLease: leaseMs,
              suppressMissedWarning: true,
              runCoordinator: {
                shouldRun: async (key, ttlMs) => (await client.set(`cron:${key}`, '1', 'PX', ttlMs, 'NX')) === 'OK',
              },
            },
          );
        }),
    };
  },
};
