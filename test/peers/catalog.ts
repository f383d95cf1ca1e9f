import type { Peer } from './adapters/peer.ts';

/** Each is loaded where it is used: a process of an owner has one library in it. */
export const catalog: ReadonlyMap<string, () => Promise<Peer>> = new Map([
  ['leasehold', async () => (await import('./adapters/leasehold.ts')).leasehold],
  ['leasehold-unfenced', async () => (await import('./adapters/leasehold.ts')).unfenced],
  ['redlock-4', async () => (await import('./adapters/redlock-4.ts')).redlock4],
  ['redlock-5', async () => (await import('./adapters/redlock-5.ts')).redlock5],
  ['sesamecare', async () => (await import('./adapters/sesamecare.ts')).sesamecare],
  ['redlock-universal', async () => (await import('./adapters/redlock-universal.ts')).redlockUniversal],
  ['redis-semaphore', async () => (await import('./adapters/redis-semaphore.ts')).redisSemaphore],
  ['bullmq', async () => (await import('./adapters/bullmq.ts')).bullmq],
  ['node-cron', async () => (await import('./adapters/node-cron.ts')).nodeCron],
]);

export async function peerNamed(name: string): Promise<Peer> {
  const load = catalog.get(name);
  if (load === undefined) throw new Error(`there is no peer ${name}; there are ${[...catalog.keys()].join(', ')}`);
  return load();
}
