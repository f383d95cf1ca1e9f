import type { StoreOperation } from '../events.ts';
import type { ExtendVerdict } from '../store/store.ts';
import type { Tenure, TenureObserver } from './tenure.ts';

/** Sends a call to the store, timed if anybody wants to know. */
export function timed<T extends { readonly kind: string }>(
  observer: Pick<TenureObserver, 'timing'>,
  operation: StoreOperation['operation'],
  send: () => Promise<T>,
): Promise<T> {
  const told = observer.timing(operation);
  if (told === undefined) return send();
  return send().then(
    (reply) => {
      told(reply.kind);
      return reply;
    },
    (error: unknown) => {
      told('failed');
      throw error;
    },
  );
}

/**
 * Times one batch of extends, for each manager that has leases in it and wants to know. The function returned is told the
 * verdicts, in the order of the batch; none for those without an answer.
 */
export function timedBatch(batch: readonly Tenure[]): ((verdicts: readonly ExtendVerdict[]) => void) | undefined {
  const timers = new Map<TenureObserver, ReturnType<TenureObserver['timing']>>();
  let last: TenureObserver | undefined;
  for (const { observer } of batch) {
    if (observer === last) continue;
    last = observer;
    if (!timers.has(observer)) timers.set(observer, observer.timing('extend'));
  }
  if ([...timers.values()].every((done) => done === undefined)) return undefined;
  return (verdicts) => {
    for (const [observer, done] of timers) {
      if (done === undefined) continue;
      const outcomes = new Map<string, number>();
      for (const [index, tenure] of batch.entries()) {
        if (tenure.observer !== observer) continue;
        const outcome = verdicts[index]?.verdict ?? 'failed';
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
      for (const [outcome, leases] of outcomes) done(outcome, leases);
    }
  };
}
