/** Those that ask a process to end, and that its child is to hear of. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'] as const;

/** Calls `handle` instead of ending the process; until it is disposed of. */
export function onSignals(handle: (signal: NodeJS.Signals) => void): Disposable {
  for (const signal of ENDING) process.on(signal, handle);
  return {
    [Symbol.dispose]: () => {
      for (const signal of ENDING) process.off(signal, handle);
    },
  };
}
