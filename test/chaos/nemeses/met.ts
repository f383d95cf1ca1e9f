import { setTimeout as sleep } from 'node:timers/promises';

/** Longer than anybody is silent, and than another fault keeps everybody from saying something. */
const PATIENCE_MS = 20_000;

/** A fault goes on until it has met something: at times nobody has anything to say. How much it has met. */
export async function untilMet(met: () => number | Promise<number>): Promise<number> {
  const untilMs = performance.now() + PATIENCE_MS;
  let much = await met();
  while (much <= 0 && performance.now() < untilMs) {
    await sleep(20);
    much = await met();
  }
  return much;
}
