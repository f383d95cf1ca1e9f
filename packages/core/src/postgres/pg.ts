import type { Clock } from '../clock.ts';
import { ConfigError } from '../errors.ts';
import { isNoAnswer, Waits } from './deadline.ts';
import { ABORTED, ALONE, ENDED, LOOKING, rowOf, type Driver, type Ended, type Row, type Work } from './driver.ts';
import { sqlErrorOf } from './refusal.ts';

/** What a body may still do with its client when that is not its own any more: listen no longer. */
const HARMLESS: ReadonlySet<PropertyKey> = new Set(['off', 'removeListener', 'removeAllListeners']);

interface PgResult {
  readonly command?: string;
  readonly rows: readonly unknown[];
}

/** What the fence uses of a client that a pool of `pg` has lent out. */
export interface PgPoolClient {
  query(text: string): Promise<unknown>;
  release: (destroy?: Error | boolean) => void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** A pool of `pg`, or of its shape. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
}

/** A client for as long as it is ours. */
class Lent<Tx extends PgPoolClient> {
  readonly client: Tx;
  /** What ended the connection. Without a listener a client whose session was ended would end the process. */
  lost: Error | undefined;
  /**
   * The client as the body has it, for as long as that runs: afterwards the same client may be in another transaction, and
   * what a straggler of the body sends by it would go unguarded.
   */
  readonly tx: Tx;
  #isOver = false;
  readonly #release: PgPoolClient['release'];
  readonly #onError = (error: Error): void => {
    this.lost ??= error;
  };

  constructor(client: Tx) {
    this.client = client;
    this.#release = client.release;
    // A body that gives it back, as adapters of query builders do, would share an open transaction with strangers.
    client.release = () => {
      throw new ConfigError('tx.release', "is the fence's, which gives the client back when the body has settled");
    };
    client.on('error', this.#onError);
    this.tx = new Proxy(client, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown => {
          if (this.#isOver && !HARMLESS.has(name)) {
            throw new ConfigError('tx', 'this write is over; use tx only inside its body, and await all of it');
          }
          const result: unknown = Reflect.apply(value, target, args);
          return result === target ? this.tx : result;
        };
      },
    });
  }

  /** The body has settled. */
  end(): void {
    this.#isOver = true;
  }

  async query(text: string, what: string, withinMs: number, waits: Waits): Promise<PgResult> {
    const answer = await waits.within(this.client.query(text), what, withinMs);
    // One result for each statement.
    return (Array.isArray(answer) ? answer.at(-1) : answer) as PgResult;
  }

  /** Gives the client back. With an error it is closed, which rolls back whatever is open. */
  release(error?: unknown): void {
    this.end();
    const because = this.lost ?? error;
    this.client.release = this.#release;
    this.client.release(because === undefined ? undefined : because instanceof Error ? because : true);
    this.client.removeListener('error', this.#onError);
  }
}

export class PgDriver<Tx extends PgPoolClient> implements Driver<Tx> {
  readonly #pool: PgPool;
  readonly #clock: Clock;
  readonly #waits: Waits;

  constructor(pool: PgPool, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
    this.#waits = new Waits(clock);
  }

  ask(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(ALONE + sql, withinMs);
  }

  look(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(LOOKING + sql, withinMs);
  }

  async #alone(sql: string, withinMs: number): Promise<Row> {
    const untilMs = this.#clock.monotonicMs() + withinMs;
    const lent = await this.#borrow(withinMs);
    try {
      const leftMs = Math.max(1, untilMs - this.#clock.monotonicMs());
      const { rows } = await lent.query(sql, 'the statement', Math.ceil(leftMs), this.#waits);
      lent.release();
      return rowOf(rows);
    } catch (error) {
      lent.release(isNoAnswer(error) ? error : undefined);
      throw error;
    }
  }

  async run(sql: string): Promise<void> {
    const lent = new Lent(await this.#pool.connect());
    try {
      await lent.client.query(sql);
    } finally {
      lent.release();
    }
  }

  async write<T>(work: Work<Tx, T>): Promise<Ended<T>> {
    const untilMs = this.#clock.monotonicMs() + work.openMs;
    let lent: Lent<Tx>;
    try {
      lent = await this.#borrow(work.openMs);
    } catch (error) {
      return { at: 'opening', error };
    }
    let guard: string;
    try {
      guard = work.guard();
    } catch (error) {
      lent.release();
      return { at: 'body', error };
    }
    try {
      const leftMs = Math.max(1, Math.ceil(untilMs - this.#clock.monotonicMs()));
      // One round trip. Text without parameters, so that it is one message of the simple protocol.
      const begin = `begin isolation level ${work.isolation} read write; ${guard}`;
      const { rows } = await lent.query(begin, 'the guard', leftMs, this.#waits);
      work.guarded(rowOf(rows));
    } catch (error) {
      await this.#rollBack(lent, work.closeMs, error);
      return { at: 'opening', error };
    }
    let value: T;
    try {
      value = await work.body(lent.tx);
    } catch (error) {
      lent.end();
      await this.#rollBack(lent, work.closeMs, error);
      return lent.lost !== undefined && isOfConnection(error, lent.lost)
        ? { at: 'lost', error }
        : { at: 'body', error };
    }
    lent.end();
    return this.#commit(lent, value, work);
  }

  async #commit<T>(lent: Lent<Tx>, value: T, work: Work<Tx, T>): Promise<Ended<T>> {
    const { lost } = lent;
    if (lost !== undefined) {
      lent.release();
      return { at: 'lost', error: lost };
    }
    try {
      const { command } = await lent.query(`${work.closing()}; commit`, 'COMMIT', work.closeMs, this.#waits);
      lent.release();
      return command === 'ROLLBACK' ? { at: 'aborted' } : { at: 'done', value };
    } catch (error) {
      const code = sqlErrorOf(error)?.code;
      if (code === ENDED || code === ABORTED) {
        // COMMIT was not carried out.
        await this.#rollBack(lent, work.closeMs, error);
        return code === ENDED ? { at: 'ended' } : { at: 'aborted', error };
      }
      lent.release(error);
      return { at: 'commit', error, value };
    }
  }

  async #rollBack(lent: Lent<Tx>, withinMs: number, because: unknown): Promise<void> {
    if (lent.lost !== undefined || isNoAnswer(because)) {
      lent.release(lent.lost ?? because);
      return;
    }
    try {
      await lent.query('rollback', 'ROLLBACK', withinMs, this.#waits);
      lent.release();
    } catch (error) {
      lent.release(error);
    }
  }

  async #borrow(withinMs: number): Promise<Lent<Tx>> {
    const connecting = this.#pool.connect() as Promise<Tx>;
    const client = await this.#waits.within(connecting, 'the request for a connection', withinMs, (late) => {
      late.release();
    });
    return new Lent(client);
  }
}

/** Whether a body failed because its connection was gone, and for no reason of its own. */
function isOfConnection(error: unknown, lost: Error): boolean {
  if (error === lost || sqlErrorOf(error)?.severity === 'FATAL') return true;
  try {
    return (
      error instanceof Error &&
      /^Connection terminated|connection error and is not queryable|^Client was closed/.test(error.message)
    );
  } catch {
    // Anything can be thrown, also what cannot be looked at.
    return false;
  }
}
