/** The first row of the last statement that gave rows, by position: names of columns are changed by some clients' settings. */
export type Row = readonly unknown[];

/** One fenced transaction, for a driver to carry out. */
export interface Work<Tx, T> {
  /** Of the transaction, as after `isolation level`. */
  readonly isolation: string;
  /** Milliseconds for connection, BEGIN and guard. */
  readonly openMs: number;
  /** Milliseconds for COMMIT, and for ROLLBACK. */
  readonly closeMs: number;
  /** Asked for when it can be sent at once. May throw: then nothing is sent. */
  guard(): string;
  /** What the guard answered. */
  guarded(row: Row): void;
  body(tx: Tx): T | Promise<T>;
  /**
   * A statement to be sent right before COMMIT: fails (LH005) if the transaction is not the guard's any more, because the body
   * has ended that one and begun another.
   */
  closing(): string;
}

/** SQLSTATE of `closing`: the body has ended the transaction. */
export const ENDED = 'LH005';

/** SQLSTATE of whatever is sent in a transaction that an error has aborted. */
export const ABORTED = '25P02';

/** What became of it. Drivers tell, the fence judges. */
export type Ended<T> =
  | { readonly at: 'done'; readonly value: T }
  /** The guard was refused or not sent. Rolled back. */
  | { readonly at: 'opening'; readonly error: unknown }
  /** `work.guard` or the body threw. Rolled back. */
  | { readonly at: 'body'; readonly error: unknown }
  /** The connection was lost before COMMIT was sent. Rolled back by the server. */
  | { readonly at: 'lost'; readonly error: unknown }
  /** COMMIT was answered with ROLLBACK: the transaction was aborted before. */
  | { readonly at: 'aborted'; readonly error?: unknown }
  /** The body itself ended the transaction. */
  | { readonly at: 'ended' }
  /** COMMIT was answered with an error, or not at all. */
  | { readonly at: 'commit'; readonly error: unknown; readonly value: T };

/** How a client is talked to. */
export interface Driver<Tx> {
  /** Statements in one transaction of their own, read committed, on a connection of their own. Rejects with the client's error or `NoAnswer`. */
  ask(sql: string, withinMs: number): Promise<Row>;
  /** As `ask`, for what only reads: a standby answers it, too. */
  look(sql: string, withinMs: number): Promise<Row>;
  /** Never rejects, and never before the body has settled. */
  write<T>(work: Work<Tx, T>): Promise<Ended<T>>;
  /** Sends SQL that is no question; for the schema. */
  run(sql: string): Promise<void>;
}

/** SQL around the statements of `ask`, whatever the defaults of the session are. An implicit transaction: no COMMIT, one round trip. */
export const ALONE = 'set transaction isolation level read committed, read write; ';
/** Around those of `look`: a standby refuses to begin anything that may write. */
export const LOOKING = 'set transaction isolation level read committed, read only; ';

/** What `rows` of a client say. */
export function rowOf(rows: readonly unknown[] | undefined): Row {
  const row = rows?.[0];
  return typeof row === 'object' && row !== null ? Object.values(row) : [];
}
