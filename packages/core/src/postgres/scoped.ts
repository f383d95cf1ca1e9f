import type { Clock } from '../clock.ts';
import { NoAnswer, within } from './deadline.ts';
import type { Ended, Row, Work } from './driver.ts';

/** A client that runs a function inside a transaction, and sends BEGIN, COMMIT and ROLLBACK itself. */
export interface Scope<Tx> {
  transact(scope: (tx: Tx) => Promise<void>): Promise<unknown>;
  /** Sends one or several statements. */
  send(tx: Tx, sql: string): Promise<Row>;
  /** What comes before the guard in the same text, to set the isolation level. */
  readonly before: (isolation: string) => string;
  /** Whether the body has ended the transaction. */
  isEnded(tx: Tx): boolean;
}

/** A fenced transaction over such a client. Never rejects, and never resolves before the body has settled. */
export async function writeScoped<Tx, T>(scope: Scope<Tx>, work: Work<Tx, T>, clock: Clock): Promise<Ended<T>> {
  let state: 'opening' | 'body' | 'closing' | 'over' = 'opening';
  let ended: Ended<T> | undefined;
  let opened = (): void => {};
  const opening = new Promise<void>((resolve) => (opened = resolve));
  let settled = (): void => {};
  const body = new Promise<void>((resolve) => (settled = resolve));

  const running = scope.transact(async (tx) => {
    if (state === 'over') throw new NoAnswer('BEGIN', work.openMs);
    let guard: string;
    try {
      guard = work.guard();
    } catch (error) {
      ended = { at: 'body', error };
      throw error;
    }
    const row = await scope.send(tx, scope.before(work.isolation) + guard);
    // Too late: nobody waits for this any more. Rolls back.
    if ((state as string) === 'over') throw new NoAnswer('the guard', work.openMs);
    work.guarded(row);
    state = 'body';
    opened();
    try {
      const value = await work.body(tx);
      ended = { at: 'done', value };
    } catch (error) {
      ended = { at: 'body', error };
      throw error;
    } finally {
      state = 'closing';
      settled();
    }
    if (scope.isEnded(tx)) ended = { at: 'ended' };
  });
  running.then(opened, opened);

  try {
    await within(Promise.race([opening, running]), 'BEGIN and guard', work.openMs, clock);
  } catch (error) {
    if ((state as string) === 'opening') {
      state = 'over';
      return ended ?? { at: 'opening', error };
    }
  }
  let failed: { readonly error: unknown } | undefined;
  const closed = running.then(
    () => {},
    (error: unknown) => {
      failed = { error };
    },
  );
  if ((state as string) !== 'opening') await Promise.race([body, Promise.all([closed, body])]);
  try {
    await within(closed, 'COMMIT', work.closeMs, clock);
  } catch (error) {
    failed ??= { error };
  }
  if (ended === undefined) return { at: 'opening', error: failed?.error };
  if (ended.at !== 'done' || failed === undefined) return ended;
  return { at: 'commit', error: failed.error, value: ended.value };
}
