import type { Clock } from '../clock.ts';
import { begin, isOfConnection } from './begin.ts';
import { within } from './deadline.ts';
import { ALONE, LOOKING, rowOf, type Driver, type Ended, type Row, type Work } from './driver.ts';
import { writeScoped, type Scope } from './scoped.ts';

interface Pending extends Promise<readonly unknown[]> {
  cancel?(): unknown;
}

interface Unsafe {
  unsafe(sql: string): Pending;
}

/** An instance of `postgres` (porsager), or of its shape. */
export interface PostgresJs extends Unsafe {
  begin(options: string, scope: (tx: unknown) => unknown): Promise<unknown>;
}

export class PostgresJsDriver<Tx> implements Driver<Tx> {
  readonly #sql: PostgresJs;
  readonly #clock: Clock;

  constructor(sql: PostgresJs, clock: Clock) {
    this.#sql = sql;
    this.#clock = clock;
  }

  ask(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(ALONE + sql, withinMs);
  }

  look(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(LOOKING + sql, withinMs);
  }

  async #alone(sql: string, withinMs: number): Promise<Row> {
    const asking = this.#sql.unsafe(sql);
    try {
      return lastRow(await within(asking, 'the statement', withinMs, this.#clock));
    } catch (error) {
      // Where it still runs it is cancelled, to free its connection.
      void Promise.resolve(asking.cancel?.()).catch(() => {});
      throw error;
    }
  }

  async run(sql: string): Promise<void> {
    await this.#sql.unsafe(sql);
  }

  write<T>(work: Work<Tx, T>): Promise<Ended<T>> {
    const scope: Scope<Tx> = {
      transact: (inside) => begin(this.#sql, `isolation level ${work.isolation} read write`, (tx) => inside(tx as Tx)),
      send: async (tx, sql) => lastRow(await (tx as Unsafe).unsafe(sql)),
      before: () => '',
      isEnded: () => false,
      isOfConnection,
    };
    return writeScoped(scope, work, this.#clock);
  }
}

/** Several statements give a list of results, one gives its rows. */
function lastRow(answer: readonly unknown[]): Row {
  const last = answer.at(-1);
  return rowOf(Array.isArray(last) ? last : answer);
}
