import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/** What it gives, or undefined if the server cannot be asked just now: another fault may have it. */
export async function tried<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch {
    return undefined;
  }
}

/** Until it succeeds: a fault must end, and another one may be in the way for a while. */
export async function insist<T>(work: () => Promise<T>): Promise<T> {
  const until = performance.now() + 30_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > until) throw error;
      await sleep(20);
    }
  }
}

/** A number of INFO; 0 if it has none of that name. */
export async function figure(admin: Redis, section: string, name: string): Promise<number> {
  const text = await admin.info(section);
  return Number(new RegExp(String.raw`^${name}:(\d+)`, 'm').exec(text)?.[1] ?? 0);
}

/** How often the server has answered with this error, since it began or was last asked to forget. */
export async function errors(admin: Redis, code: string): Promise<number> {
  const text = await admin.info('errorstats');
  return Number(new RegExp(String.raw`^errorstat_${code}:count=(\d+)`, 'm').exec(text)?.[1] ?? 0);
}

/** Which life of the server it is. */
export async function runId(admin: Redis): Promise<string> {
  return /^run_id:(\w+)/m.exec(await admin.info('server'))?.[1] ?? '';
}
