import { startChild } from '../support/child.ts';
import type { HostOptions, SideName } from './benchmark.ts';
import { openSide } from './open-side.ts';

/** A side, wherever it runs. One call at a time. */
export interface Hosted {
  /** 0 where it has no process of its own. */
  readonly pid: number;
  call<T = void>(method: string, args?: object): Promise<T>;
  kill9(): Promise<void>;
  close(): Promise<void>;
}

/** In a process of its own. */
export async function hostAlone(name: SideName, setup: object, { execArgv = [] }: HostOptions = {}): Promise<Hosted> {
  const child = startChild(new URL('./fixtures/side.ts', import.meta.url), {
    env: { BENCH_SIDE: JSON.stringify({ name, setup }) },
    execArgv,
  });
  await child.next('ready', { timeoutMs: 60_000 });
  let isGone = false;
  void child.exit.then(() => (isGone = true));
  const call = async (method: string, args: object = {}): Promise<unknown> => {
    child.send('call', { method, args });
    const answer = await child.next<{ type: string; value?: unknown; error?: string }>('answer', {
      timeoutMs: 300_000,
    });
    if (answer.error !== undefined) throw new Error(`${name}, ${method}: ${answer.error}`);
    return answer.value;
  };
  return {
    pid: child.pid,
    call: call as Hosted['call'],
    kill9: () => child.kill9(),
    async close() {
      if (isGone) return;
      child.send('call', { method: 'close', args: {} });
      await Promise.race([child.exit, new Promise((resolve) => setTimeout(resolve, 5000).unref())]);
      await child.kill9();
    },
  };
}

/** In this one, for a look that may cost no time: what it gives as figures is worth nothing. */
export async function hostHere(name: SideName, setup: object): Promise<Hosted> {
  const side = await openSide(name, setup);
  let isClosed = false;
  const call = async (method: string, args: object = {}): Promise<unknown> => {
    const act = side[method];
    if (act === undefined) throw new Error(`${name} has no ${method}`);
    return act(args as never);
  };
  return {
    pid: 0,
    call: call as Hosted['call'],
    kill9: () => Promise.reject(new Error('it has no process of its own')),
    async close() {
      if (!isClosed) await call('close');
      isClosed = true;
    },
  };
}
