import type { Clock } from '../clock.ts';
import { ConfigError } from '../errors.ts';
import { isNoAnswer, Waits, type Wait } from './deadline.ts';
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

  async query(text: string, what: string, wait: Wait): Promise<PgResult> {
    const answer = await wait.race(this.client.query(text), what);
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
  readonly #waits: Waits;

  constructor(pool: PgPool, clock: Clock) {
    this.#pool = pool;
    this.#waits = new Waits(clock);
  }

  ask(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(ALONE + sql, withinMs);
  }

  look(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(LOOKING + sql, withinMs);
  }

  async #alone(sql: string, withinMs: number): Promise<Row> {
    const wait = this.#waits.begin(withinMs);
    try {
      const lent = await this.#borrow(wait);
      try {
        const { rows } = await lent.query(sql, 'the statement', wait);
        lent.release();
        return rowOf(rows);
      } catch (error) {
        lent.release(isNoAnswer(error) ? error : undefined);
        throw error;
      }
    } finally {
      this.#waits.end(wait);
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
    const lent = await this.#open(work);
    if (!(lent instanceof Lent)) return lent;
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

  /** A client in a transaction that is guarded, or why there is none. */
  async #open(work: Work<Tx, unknown>): Promise<Lent<Tx> | Ended<never>> {
    const wait = this.#waits.begin(work.openMs);
    let lent: Lent<Tx> | undefined;
    try {
      lent = await this.#borrow(wait);
      let guard: string;
      try {
        guard = work.guard();
      } catch (error) {
        lent.release();
        return { at: 'body', error };
      }
      // One round trip. Text without parameters, so that it is one message of the simple protocol.
      const begin = `begin isolation level ${work.isolation} read write; ${guard}`;
      const { rows } = await lent.query(begin, 'the guard', wait);
      work.guarded(rowOf(rows));
      return lent;
    } catch (error) {
      if (lent !== undefined) await this.#rollBack(lent, work.closeMs, error);
      return { at: 'opening', error };
    } finally {
      this.#waits.end(wait);
    }
  }

  async #commit<T>(lent: Lent<Tx>, value: T, work: Work<Tx, T>): Promise<Ended<T>> {
    const { lost } = lent;
    if (lost !== undefined) {
      lent.release();
      return { at: 'lost', error: lost };
    }
    const wait = this.#waits.begin(work.closeMs);
    try {
      const { command } = await lent.query(`${work.closing()}; commit`, 'COMMIT', wait);
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
    } finally {
      this.#waits.end(wait);
    }
  }

  async #rollBack(lent: Lent<Tx>, withinMs: number, because: unknown): Promise<void> {
    if (lent.lost !== undefined || isNoAnswer(because)) {
      lent.release(lent.lost ?? because);
      return;
    }
    const wait = this.#waits.begin(withinMs);
    try {
      await lent.query('rollback', 'ROLLBACK', wait);
      lent.release();
    } catch (error) {
      lent.release(error);
    } finally {
      this.#waits.end(wait);
    }
  }

  async #borrow(wait: Wait): Promise<Lent<Tx>> {
    const connecting = this.#pool.connect() as Promise<Tx>;
    return new Lent(await wait.race(connecting, 'the request for a connection', (late) => late.release()));
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
