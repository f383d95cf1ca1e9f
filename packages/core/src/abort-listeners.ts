// One listener a signal, however many runs hang on it: Node warns of a leak from the eleventh on, and a signal for the whole
// application is the usual case.
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `listener` once when the signal aborts; not if it has aborted before. Returns what ends that. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let all = listeners.get(signal);
  if (all === undefined) {
    const added = new Set<() => void>();
    listeners.set(signal, (all = added));
    signal.addEventListener(
      'abort',
      function dispatch() {
        listeners.delete(signal);
        for (const each of added) each();
      },
      { once: true },
    );
  }
  const own = all;
  own.add(listener);
  return () => void own.delete(listener);
}
