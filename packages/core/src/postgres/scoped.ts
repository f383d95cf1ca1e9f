import type { Clock } from '../clock.ts';
import { NoAnswer, within } from './deadline.ts';
import { ABORTED, ENDED, type Ended, type Row, type Work } from './driver.ts';
import { sqlErrorOf } from './refusal.ts';

/** A client that runs a function inside a transaction, and sends BEGIN, COMMIT and ROLLBACK itself. */
export interface Scope<Tx> {
  transact(inside: (tx: Tx) => Promise<void>): Promise<unknown>;
  /** Sends one or several statements. */
  send(tx: Tx, sql: string): Promise<Row>;
  /** What comes before the guard in the same text, to set the isolation level. */
  before(isolation: string): string;
  /** Whether the body has ended the transaction. */
  isEnded(tx: Tx): boolean;
  /** Whether this is what queries reject with once the connection is gone. */
  isOfConnection(error: unknown): boolean;
}

/** A fenced transaction over such a client. Never rejects, and never resolves before a body that has begun has settled. */
export async function writeScoped<Tx, T>(scope: Scope<Tx>, work: Work<Tx, T>, clock: Clock): Promise<Ended<T>> {
  let isGivenUp = false;
  /** What the body came to; `lost` is set if the transaction had failed before that. */
  let settled: { readonly ended: Ended<T>; readonly lost?: unknown } | undefined;
  let failure: { readonly error: unknown } | undefined;
  let begun = (): void => {};
  const begin = new Promise<void>((resolve) => (begun = resolve));
  let bodySettled = (): void => {};
  const body = new Promise<void>((resolve) => (bodySettled = resolve));
  let hasBegun = false;
  /** From now on COMMIT is sent. */
  let isCommitting = false;
  /** Nobody waits any more: no COMMIT is to be sent that was not sent before. */
  let isTooLate = false;

  const settle = (ended: Ended<T>): void => {
    settled = failure === undefined ? { ended } : { ended, lost: failure.error };
  };
  const inside = async (tx: Tx): Promise<void> => {
    // Too late, nobody waits for this any more: what is thrown rolls back.
    if (isGivenUp) throw new NoAnswer('BEGIN', work.openMs);
    let guard: string;
    try {
      guard = work.guard();
    } catch (error) {
      settle({ at: 'body', error });
      throw error;
    }
    const row = await scope.send(tx, scope.before(work.isolation) + guard);
    if (isGivenUp) throw new NoAnswer('the guard', work.openMs);
    work.guarded(row);
    hasBegun = true;
    begun();
    try {
      const value = await work.body(tx);
      settle(scope.isEnded(tx) ? { at: 'ended' } : { at: 'done', value });
    } catch (error) {
      settle({ at: 'body', error });
      throw error;
    } finally {
      bodySettled();
    }
    if (settled?.ended.at !== 'done' || settled.lost !== undefined) return;
    try {
      await scope.send(tx, work.closing());
    } catch (error) {
      const sql = sqlErrorOf(error);
      // Thrown on, so that no COMMIT is sent.
      if (sql?.code === ENDED) settle({ at: 'ended' });
      else if (sql?.code === ABORTED) settle({ at: 'aborted', error });
      // An answer: the connection is not lost.
      else if (sql?.severity === 'ERROR') settle({ ...settled.ended, at: 'commit', error });
      throw error;
    }
    if (isTooLate) throw new NoAnswer('the statement before COMMIT', work.closeMs);
    isCommitting = true;
  };
  const running = scope.transact(inside).then(
    () => {},
    (error: unknown) => {
      failure = { error };
    },
  );

  try {
    await within(Promise.race([begin, running]), 'BEGIN and guard', work.openMs, clock);
  } catch (error) {
    isGivenUp = !hasBegun;
    if (isGivenUp) return { at: 'opening', error };
  }
  if (hasBegun) await body;
  try {
    await within(running, 'COMMIT or ROLLBACK', work.closeMs, clock);
  } catch (error) {
    isTooLate = true;
    failure ??= { error };
  }
  if (settled?.ended.at === 'done' && failure !== undefined && !isCommitting)
    return { at: 'lost', error: failure.error };
  return judge(settled, failure, scope);
}

function judge<T>(
  settled: { readonly ended: Ended<T>; readonly lost?: unknown } | undefined,
  failure: { readonly error: unknown } | undefined,
  scope: { isOfConnection(error: unknown): boolean },
): Ended<T> {
  if (settled === undefined) return { at: 'opening', error: failure?.error };
  const { ended, lost } = settled;
  if (ended.at === 'done') {
    if (lost !== undefined) return { at: 'lost', error: lost };
    if (failure === undefined) return ended;
    const { error } = failure;
    return sqlErrorOf(error)?.code === ABORTED ? { at: 'aborted', error } : { at: 'commit', error, value: ended.value };
  }
  // The body threw because its connection was gone if the transaction failed for such a reason of its own. An error of
  // some other connection is the body's own.
  const isLost = failure !== undefined && ended.at === 'body' && failure.error !== ended.error;
  if (isLost && scope.isOfConnection(failure.error) && scope.isOfConnection(ended.error)) {
    return { at: 'lost', error: ended.error };
  }
  return ended;
}
