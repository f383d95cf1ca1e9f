const MAX_TIMER_MS = 2 ** 31 - 1;

/** Resolves after `forMs` (never, if that is longer than timers can wait), or as soon as one of the signals is aborted. */
export async function pause(forMs: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  if (signals.some((signal) => signal?.aborted)) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = forMs > MAX_TIMER_MS ? undefined : setTimeout(done, forMs);
    for (const signal of signals) signal?.addEventListener('abort', done);
  });
}

/** Whether `work` settles within `forMs`, which begin when `from` is aborted (at once, if not given). Never rejects. */
export async function settlesWithin(work: Promise<unknown>, forMs: number, from?: AbortSignal): Promise<boolean> {
  const over = new AbortController();
  const late = (async () => {
    if (from !== undefined) await pause(Infinity, from, over.signal);
    await pause(forMs, over.signal);
    return false;
  })();
  const settled = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    over.abort();
  }
}
