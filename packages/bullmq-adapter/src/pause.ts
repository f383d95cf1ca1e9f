/** Resolves after `forMs`, or as soon as one of the signals is aborted. */
export async function pause(forMs: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  if (signals.some((signal) => signal?.aborted)) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = forMs === Infinity ? undefined : setTimeout(done, forMs);
    for (const signal of signals) signal?.addEventListener('abort', done);
  });
}
