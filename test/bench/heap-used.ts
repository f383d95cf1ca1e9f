import { setTimeout as sleep } from 'node:timers/promises';

/** Bytes in use, after garbage collection: with `--expose-gc`, or they are not exact. */
export async function heapUsed(): Promise<number> {
  for (let times = 0; times < 3; times++) {
    globalThis.gc?.();
    await sleep(5);
  }
  return process.memoryUsage().heapUsed;
}
