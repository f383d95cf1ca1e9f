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

/** What a server, or several together, have done since they started, and what they have now. */
export interface ServerFigures {
  readonly cpuUs: number;
  readonly inBytes: number;
  readonly outBytes: number;
  readonly memory: number;
  readonly connections: number;
  readonly calls: ReadonlyMap<string, number>;
}

export async function serverFigures(...clients: readonly Redis[]): Promise<ServerFigures> {
  const each = await Promise.all(clients.map(figuresOf));
  const total = (of: (its: ServerFigures) => number): number => each.reduce((all, its) => all + of(its), 0);
  const names = new Set(each.flatMap(({ calls }) => [...calls.keys()]));
  return {
    cpuUs: total(({ cpuUs }) => cpuUs),
    inBytes: total(({ inBytes }) => inBytes),
    outBytes: total(({ outBytes }) => outBytes),
    memory: total(({ memory }) => memory),
    connections: total(({ connections }) => connections),
    calls: new Map([...names].map((name) => [name, total(({ calls }) => calls.get(name) ?? 0)])),
  };
}

async function figuresOf(client: Redis): Promise<ServerFigures> {
  const calls = await commandCalls(client);
  const info = await client.info();
  const of = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? '0');
  return {
    cpuUs: (of('used_cpu_user') + of('used_cpu_sys')) * 1e6,
    inBytes: of('total_net_input_bytes'),
    outBytes: of('total_net_output_bytes'),
    memory: of('used_memory'),
    connections: of('connected_clients'),
    calls,
  };
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
