import Redlock from 'redlock-5';
import { olderClientFor } from './client.ts';
import { ofALock, type Peer } from './peer.ts';

export const redlock5: Peer = {
  ...ofALock,
  name: 'redlock 5 beta',
  dependency: 'redlock-5',
  configuration:
    '`using` with its signal, `automaticExtensionThreshold` of two thirds of the lease, so that it is extended each third; `retryDelay` 200 ms, `retryJitter` 200 ms (its defaults), as many retries as it takes. Over ioredis 5, for which it was made',
  keys: (resource) => [resource],
  async open(surroundings) {
    const { resource, leaseMs, renewMs } = surroundings;
    const redlock = new Redlock([olderClientFor(surroundings)], {
      retryCount: 10,
      automaticExtensionThreshold: leaseMs - renewMs,
    });
    redlock.on('error', () => {});
    return { run: (section) => untilEntered((enter) => redlock.using([resource], leaseMs, enter), section) };
  },
};

/**
 * With `retryCount: -1` it would also retry a release for ever, so it retries ten times and we ask again until we were in.
 * What it says after the section is no longer of interest.
 */
export async function untilEntered(
  using: (enter: (signal: AbortSignal) => Promise<void>) => Promise<unknown>,
  section: (held: { isLost(): boolean }) => Promise<void>,
): Promise<void> {
  let hasEntered = false;
  while (!hasEntered) {
    try {
      await using(async (signal) => {
        hasEntered = true;
        await section({ isLost: () => signal.aborted });
      });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
    }
  }
}
