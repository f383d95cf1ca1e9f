import type { Clock } from '../clock.ts';
import { within } from './deadline.ts';
import { ALONE, LOOKING, rowOf, type Driver, type Ended, type Row, type Work } from './driver.ts';
import { writeScoped, type Scope } from './scoped.ts';

interface Exec {
  exec(sql: string): Promise<readonly { readonly rows: readonly unknown[] }[]>;
}

/** A PGlite, or something of its shape. */
export interface PGliteLike extends Exec {
  transaction(scope: (tx: unknown) => Promise<unknown>): Promise<unknown>;
}

export class PGliteDriver<Tx> implements Driver<Tx> {
  readonly #db: PGliteLike;
  readonly #clock: Clock;

  constructor(db: PGliteLike, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  ask(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(ALONE + sql, withinMs);
  }

  look(sql: string, withinMs: number): Promise<Row> {
    return this.#alone(LOOKING + sql, withinMs);
  }

  async #alone(sql: string, withinMs: number): Promise<Row> {
    return lastRow(await within(this.#db.exec(sql), 'the statement', withinMs, this.#clock));
  }

  async run(sql: string): Promise<void> {
    await this.#db.exec(sql);
  }

  write<T>(work: Work<Tx, T>): Promise<Ended<T>> {
    const scope: Scope<Tx> = {
      transact: (inside) => this.#db.transaction((tx) => inside(tx as Tx)),
      send: async (tx, sql) => lastRow(await (tx as Exec).exec(sql)),
      before: (isolation) => `set transaction isolation level ${isolation}, read write; `,
      isEnded: (tx) => (tx as { readonly closed?: boolean }).closed === true,
      isOfConnection: () => false,
    };
    return writeScoped(scope, work, this.#clock);
  }
}

function lastRow(results: readonly { readonly rows: readonly unknown[] }[]): Row {
  return rowOf(results.at(-1)?.rows);
}
