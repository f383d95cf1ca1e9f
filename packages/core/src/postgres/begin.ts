/** Of a query of postgres.js: who sends it, and who is told that it failed. Identifiers and lists have neither. */
interface Query {
  handler?: ((query: Query) => void) & { debug?: unknown };
  reject?: (error: unknown) => void;
}

type Call = (...args: unknown[]) => unknown;

type Inside<Tx> = (tx: Tx) => unknown;

interface Sql {
  begin(options: string, inside: (tx: unknown) => unknown): Promise<unknown>;
}

/**
 * `sql.begin` of postgres.js with a `tx` that sends nothing more once its connection is gone.
 *
 * That of postgres.js (3.4) goes on: what is sent then goes nowhere and ends the process, or goes out over the connection
 * that was made in place of the lost one, outside of the transaction and past its guard. This is as true of the COMMIT and
 * ROLLBACK that `begin` sends itself when the body settles. So a body that has lost its connection does not settle for
 * `begin`, which has rejected already.
 */
export async function begin<Tx>(sql: Sql, options: string, inside: Inside<Tx>): Promise<void> {
  const session = new Session();
  try {
    await sql.begin(options, (tx) => session.run(tx as Tx, inside));
  } catch (error) {
    session.end(error);
    throw error;
  }
  session.end();
}

/** Whether queries of postgres.js reject with this because the connection is gone. */
export function isOfConnection(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  try {
    const { code, severity, syscall } = error as { code?: unknown; severity?: unknown; syscall?: unknown };
    return String(code).startsWith('CONNECTION_') || severity === 'FATAL' || syscall !== undefined;
  } catch {
    // Anything can be thrown, also what cannot be looked at.
    return false;
  }
}

/** What a query rejects with that comes too late. */
class NotSentError extends Error {
  readonly code: string;

  constructor(cause: unknown) {
    super('this transaction is over, nothing more is sent in it', { cause });
    this.name = 'NotSentError';
    this.code = cause === undefined ? 'TRANSACTION_ENDED' : 'CONNECTION_CLOSED';
  }
}

/** For as long as the transaction lasts. */
class Session {
  /** Why nothing is sent any more. */
  #over: NotSentError | undefined;
  /** For those who wait inside when it ends. */
  #tell: (error: unknown) => void = () => {};
  readonly #ended: Promise<never>;

  constructor() {
    this.#ended = new Promise((_, reject) => (this.#tell = reject));
    this.#ended.catch(() => {});
  }

  /** Without an error it has ended well. */
  end(error?: unknown): void {
    if (this.#over !== undefined) return;
    this.#over = new NotSentError(error);
    this.#tell(this.#over);
  }

  async run<Tx>(tx: Tx, inside: Inside<Tx>): Promise<unknown> {
    try {
      const value = await all(inside(this.#watched(tx)));
      if (this.#over === undefined) return value;
    } catch (error) {
      if (this.#over === undefined) throw error;
    }
    // Nothing holds this promise, and it goes with the transaction.
    return new Promise(() => {});
  }

  #watched<Tx>(tx: Tx): Tx {
    const watch = (made: unknown): unknown => this.#watchedQuery(made as Query);
    return new Proxy(tx as Call, {
      apply: (target, self, args) => watch(Reflect.apply(target, self, args)),
      get: (target, name) => {
        const value = Reflect.get(target, name) as Call | undefined;
        if (typeof value !== 'function') return value;
        if (name === 'unsafe' || name === 'file')
          return (...args: unknown[]) => watch(Reflect.apply(value, target, args));
        if (name === 'savepoint') return (...args: unknown[]) => this.#savepoint(target, value, args);
        return value;
      },
    }) as Tx;
  }

  #watchedQuery(query: Query): Query {
    const { handler } = query;
    if (typeof handler !== 'function') return query;
    const watched = (asked: Query): void => {
      const { reject } = asked;
      if (this.#over !== undefined) {
        reject?.(this.#over);
        return;
      }
      // Before the body hears of it, and may send the next one.
      asked.reject = (error) => {
        if (isOfConnection(error)) this.end(error);
        reject?.(error);
      };
      handler(asked);
    };
    query.handler = Object.assign(watched, { debug: handler.debug });
    return query;
  }

  #savepoint(tx: unknown, savepoint: Call, args: unknown[]): Promise<unknown> {
    if (this.#over !== undefined) return this.#ended;
    const inside = args.at(-1);
    if (typeof inside === 'function')
      args.splice(-1, 1, (inner: unknown) => this.run(inner, inside as Inside<unknown>));
    return Promise.race([Reflect.apply(savepoint, tx, args) as Promise<unknown>, this.#ended]);
  }
}

/** Like postgres.js, which takes a list of queries for all of them. */
function all(value: unknown): unknown {
  return Array.isArray(value) ? Promise.all(value) : value;
}
