import type { Redis } from 'ioredis';

/** What the server has spent since it started, µs of its cores. */
export async function redisCpuUs(client: Redis): Promise<number> {
  const info = await client.info('cpu');
  const of = (name: string): number => Number(new RegExp(`used_cpu_${name}:([\\d.]+)`).exec(info)?.[1] ?? '0') * 1e6;
  return of('user') + of('sys');
}

/** Calls of each command since the last reset, those that scripts made among them. */
export async function commandCalls(client: Redis): Promise<ReadonlyMap<string, number>> {
  const lines = (await client.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, name = '', calls]) => [name, Number(calls)]));
}

export interface Watch {
  /** Commands that clients sent, and those that scripts made of them. */
  readonly sent: ReadonlyMap<string, number>;
  readonly inScripts: ReadonlyMap<string, number>;
}

/** By MONITOR, which tells the two apart and makes the server slower: for counts, not for times. */
export async function watch(client: Redis, work: () => Promise<unknown>): Promise<Watch> {
  const monitor = await client.monitor();
  const sent = new Map<string, number>();
  const inScripts = new Map<string, number>();
  const end = `bench-end-${process.hrtime.bigint()}`;
  const seenEnd = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time: string, args: readonly string[], source: string) => {
      const [name = '', first] = args;
      if (first === end) resolve();
      const counts = source === 'lua' ? inScripts : sent;
      counts.set(name.toLowerCase(), (counts.get(name.toLowerCase()) ?? 0) + 1);
    });
  });
  await work();
  await client.echo(end);
  await seenEnd;
  monitor.disconnect();
  sent.delete('echo');
  for (const own of ['info', 'hello', 'config']) sent.delete(own);
  return { sent, inScripts };
}
