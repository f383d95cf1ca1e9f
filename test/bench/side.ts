/** What a side answers with: it goes from process to process. */
export type Answer = object | number | string | boolean | null | void;

/** Its methods by name; `close` is always there. */
export interface Side {
  readonly [method: string]: (args: never) => Promise<Answer>;
}

/** What each module of variants/ exports as `open`. */
export type OpenSide = (setup: never) => Promise<Side>;

export interface Measured {
  readonly ms: number;
  /** Of this process. */
  readonly cpuUs: number;
}

export async function measured(work: () => Promise<unknown>): Promise<Measured> {
  const [from, before] = [performance.now(), process.cpuUsage()];
  await work();
  const ms = performance.now() - from;
  const { user, system } = process.cpuUsage(before);
  return { ms, cpuUs: user + system };
}

/** `count` times, so many at once; each of them is told which. */
export async function inFlight(
  width: number,
  count: number,
  once: (place: number) => Promise<unknown>,
  tookUs?: number[],
): Promise<void> {
  let left = count;
  const worker = async (place: number): Promise<void> => {
    while (left-- > 0) {
      const from = performance.now();
      await once(place);
      tookUs?.push((performance.now() - from) * 1000);
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, (_, place) => worker(place)));
}

/** µs of a clock that all processes of the machine share. */
export const nowUs = (): number => Number(process.hrtime.bigint() / 1000n);
