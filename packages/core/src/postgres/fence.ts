import { systemClock, type Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError, FenceUnavailableError, type StaleTokenError } from '../errors.ts';
import {
  checkBody,
  checkQualified,
  checkToken,
  grantForWrite,
  grantOf,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from '../fence/fence.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { driverOf, type PostgresClient, type TxOf } from './client.ts';
import type { Driver, Ended, Row } from './driver.ts';
import { failureOf, isConflict, isUnactivated } from './failure.ts';
import { sqlErrorOf, staleIn } from './refusal.ts';
import { checkedSchema } from './schema.ts';
import { nameIn, Statements, type TransactionName } from './statements.ts';

export interface PostgresFenceOptions {
  /** Unique among the fences of one acquisition. Default `postgres`. */
  readonly name?: string | undefined;
  /** Where `installSchema` has put the tables and functions. Default `leasehold`. */
  readonly schema?: string | undefined;
  /**
   * Within which COMMIT, `seal` and `highest` settle. An activation, and the guard of a write, may have to wait for a
   * transaction of the owner before: they have `lockTimeout` + 1 s if that is more. Bodies are not limited. @default '5s'
   */
  readonly timeout?: Duration | undefined;
  /**
   * How long an owner may stand still inside its transaction before PostgreSQL ends its session; a lower setting of the
   * session's own stays. Also how long it may leave unread what it is sent, where the server is Linux and the connection
   * TCP. The server's own work on a statement is not counted: that is for `statement_timeout`. @default '5s'
   */
  readonly idleTimeout?: Duration | undefined;
  /**
   * How long an activation or a guard waits for the open transaction of an earlier owner. More than `idleTimeout`, after
   * which a stopped owner's transaction is gone. @default idleTimeout + 1 s
   */
  readonly lockTimeout?: Duration | undefined;
  /** Of the transactions of `write`. @default 'read committed' */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable' | undefined;
  readonly clock?: Clock | undefined;
}

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'];

/** SQLSTATEs of a session that was ended, which say nothing of the transaction's own. */
const SESSION_ENDED = /^(?:08|57P|25P0[34])/;

const MOST_LIVES = 64;

/** How long to pause between two questions what became of a COMMIT, at first and at most; and before a retry. */
const PAUSE_MS = { first: 10, most: 250 } as const;

/**
 * A fence for data in PostgreSQL 13 or later, in the database of `client`: a `Pool` of pg, what `postgres()` returned, or a
 * PGlite. The client is the user's own, and is neither configured nor closed. `installSchema` comes first.
 *
 * Throws `ConfigError` for a single `Client` of pg: one connection cannot run two transactions side by side.
 */
export function postgresFence<Client extends PostgresClient>(
  client: Client,
  options: PostgresFenceOptions = {},
): PostgresFence<TxOf<Client>> {
  return new PostgresFence<TxOf<Client>>(client, options);
}

export class PostgresFence<Tx> implements Fence<Tx> {
  readonly name: string;
  readonly enforcing = true;
  readonly #driver: Driver<Tx>;
  readonly #clock: Clock;
  readonly #schema: string;
  readonly #statements: Statements;
  readonly #isolation: string;
  readonly #timeoutMs: number;
  readonly #lockMs: number;
  /** For what may have to wait for an earlier owner. */
  readonly #waitMs: number;
  /** Lives of servers, and the systems that they are lives of. Each write could ask, but it would cost it a file. */
  readonly #systems = new Map<string, string>();

  constructor(client: PostgresClient, options: PostgresFenceOptions = {}) {
    refuseUnknown(options, ['name', 'schema', 'timeout', 'idleTimeout', 'lockTimeout', 'isolation', 'clock']);
    const { name = 'postgres', schema = 'leasehold', isolation = 'read committed', clock = systemClock } = options;
    if (typeof name !== 'string' || name === '') throw new ConfigError('name', `is ${show(name)}: must be a name`);
    if (!ISOLATIONS.includes(isolation)) {
      throw new ConfigError('isolation', `is ${show(isolation)}: must be one of ${ISOLATIONS.join(', ')}`);
    }
    const idleMs = limitOf('idleTimeout', options.idleTimeout ?? '5s');
    const lockMs = limitOf('lockTimeout', options.lockTimeout ?? idleMs + 1000);
    if (lockMs <= idleMs) {
      throw new ConfigError(
        'lockTimeout',
        `is ${lockMs} ms: must be more than idleTimeout (${idleMs} ms), or a successor gives up before a stopped owner's transaction is ended`,
      );
    }
    this.name = name;
    this.#clock = clock;
    this.#schema = checkedSchema(schema);
    this.#driver = driverOf<Tx>(client, clock);
    this.#statements = new Statements(this.#schema, { idleMs, lockMs });
    this.#isolation = isolation;
    this.#timeoutMs = limitOf('timeout', options.timeout ?? '5s');
    this.#lockMs = lockMs;
    this.#waitMs = Math.max(this.#timeoutMs, lockMs + 1000);
  }

  /** Settles within `timeout`, or `lockTimeout` + 1 s if that is more: it may wait for an earlier owner's transaction. */
  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    try {
      const [, place, system] = await this.#ask(this.#statements.namedActivate(asked), asked, this.#waitMs);
      if (typeof place === 'string' && typeof system === 'string') this.#remember(place, system);
    } catch (error) {
      throw reportRefusal(grant, error);
    }
  }

  /**
   * Runs `body` inside a transaction whose first statement is the guard, and commits. While it is open no later grant is
   * admitted; writes of the same grant run side by side. Rolled back if the body throws; its own error comes out.
   *
   * `tx` is valid until the body settles: await all of its queries, and leave BEGIN, COMMIT and ROLLBACK to the fence.
   * Savepoints are yours. A serialization failure (40001, 40P01) comes out as it is: nothing was written, write again.
   *
   * A COMMIT without an answer is looked up on another connection, for up to `lockTimeout`: `FenceUnavailableError` says in
   * `outcome` whether it is certain that nothing was written. Where the server has crashed or failed over in between,
   * a commit cannot be proved, and the outcome is `unknown`.
   */
  async write<T>(grant: Grant | Holding, body: (tx: Tx) => T | Promise<T>): Promise<T> {
    checkBody(body);
    const asked = grantForWrite(this, grant);
    const untilMs = this.#clock.monotonicMs() + this.#waitMs;
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS.most)) {
      const { ended, name } = await this.#transact(grant, body, untilMs);
      const mayRetry = ended.at === 'opening' && this.#clock.monotonicMs() + pauseMs < untilMs;
      if (mayRetry && isUnactivated(ended.error)) {
        // The snapshot of this transaction may be older than what the owner before has committed.
        await this.activate(grant);
        continue;
      }
      if (mayRetry && isConflict(ended.error)) {
        await this.#pause(pauseMs);
        continue;
      }
      return ended.at === 'done' ? ended.value : this.#judge(grant, asked, ended, name);
    }
  }

  /** Waits for open transactions, up to `lockTimeout`. */
  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    await this.#ask(this.#statements.seal(resource, fencingToken), { resource, fencingToken }, this.#waitMs);
  }

  async highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    checkQualified(resource);
    const call = { resource, fencingToken: 0 };
    const [token, leaseId] = await this.#ask(this.#statements.highest(resource), call, this.#timeoutMs);
    if (token === null || token === undefined) return null;
    return { fencingToken: Number(token), leaseId: typeof leaseId === 'string' ? leaseId : null };
  }

  /**
   * For transactions of your own: the first statement, without parameters, for any client. It raises SQLSTATE LH001 if
   * the grant is stale, and the transaction is dead. Asserts the lease, so make it when it is sent. Under REPEATABLE READ
   * and above the grant must have been activated (LH004).
   */
  guardSql(grant: Grant | Holding): string {
    return this.#statements.guard(grantForWrite(this, grant));
  }

  /** `activate`, for clients of your own. In a transaction of its own, READ COMMITTED, before anything is read. */
  activateSql(grant: Grant | Holding): string {
    return this.#statements.activate(grantOf(grant));
  }

  /**
   * As `guardSql`, but it answers false instead of raising: then throw, so that the transaction is rolled back. For clients
   * that cannot go on after an error of the database.
   */
  admitSql(grant: Grant | Holding): string {
    return this.#statements.admit(grantForWrite(this, grant));
  }

  /** Whether an error is the refusal of a fence, also where an ORM has wrapped it. */
  isStale(error: unknown): boolean {
    return this.refusalOf(error) !== undefined;
  }

  /** The refusal in an error of a statement of `guardSql` or `activateSql`. */
  refusalOf(error: unknown): StaleTokenError | undefined {
    return staleIn(error, this.name);
  }

  async #transact<T>(
    grant: Grant | Holding,
    body: (tx: Tx) => T | Promise<T>,
    untilMs: number,
  ): Promise<{ readonly ended: Ended<T>; readonly name: TransactionName }> {
    let name: TransactionName = { xid: '', place: '' };
    const ended = await this.#driver.write<T>({
      isolation: this.#isolation,
      openMs: Math.max(1, Math.ceil(untilMs - this.#clock.monotonicMs())),
      closeMs: this.#timeoutMs,
      // Nothing is awaited between the check of the lease and the send.
      guard: () => this.#statements.namedGuard(grantForWrite(this, grant)),
      guarded: (answer) => {
        name = nameIn(answer);
      },
      body,
      closing: () => this.#statements.ending(name.xid),
    });
    return { ended, name };
  }

  async #judge<T>(grant: Grant | Holding, asked: Grant, ended: Ended<T>, name: TransactionName): Promise<T> {
    const notWritten = (detail: string, cause?: unknown): Error =>
      new FenceUnavailableError(asked.resource, this.name, detail, cause, 'not-written');
    switch (ended.at) {
      case 'done':
        return ended.value;
      case 'opening':
        throw reportRefusal(grant, this.#failure(ended.error, asked, true));
      case 'body':
        throw this.#ofBody(grant, asked, ended.error);
      case 'lost':
        throw notWritten(`the connection was lost before COMMIT: ${messageOf(ended.error)}`, ended.error);
      case 'aborted':
        throw notWritten(
          'the transaction was aborted when the body ended, and rolled back: let errors of statements out of the body, or use a savepoint',
          ended.error,
        );
      case 'ended':
        throw new ConfigError(
          'body',
          'ended the transaction itself, so that nothing guarded what came after: look what is committed; leave BEGIN, COMMIT and ROLLBACK to the fence',
        );
      case 'commit':
        break;
    }
    // An answer with the severity ERROR: rolled back, for certain, for a reason of the user's statements.
    const sql = sqlErrorOf(ended.error);
    if (sql?.severity === 'ERROR') throw this.#ofBody(grant, asked, ended.error);
    const said = `COMMIT had no clear answer (${messageOf(ended.error)})`;
    const outcome = await this.#outcomeOf(name);
    if (outcome === 'committed') return ended.value;
    // So does an ERROR in the server's language, which could have been the end of the session.
    if (outcome === 'aborted' && sql !== undefined && !SESSION_ENDED.test(sql.code)) throw ended.error;
    if (outcome === 'aborted') throw notWritten(`${said}; it was rolled back`, ended.error);
    throw new FenceUnavailableError(
      asked.resource,
      this.name,
      `${said}, and what became of it is not known`,
      ended.error,
    );
  }

  #remember(place: string, system: string): void {
    if (this.#systems.size >= MOST_LIVES) this.#systems.clear();
    this.#systems.set(place, system);
  }

  /** Asks on other connections what became of a transaction, until it is certain or `lockTimeout` has passed. */
  async #outcomeOf({ xid, place }: TransactionName): Promise<'committed' | 'aborted' | 'unknown'> {
    if (place === '') return 'unknown';
    const sql = this.#statements.outcome(xid, place, this.#systems.get(place) ?? '');
    const untilMs = this.#clock.monotonicMs() + this.#lockMs;
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS.most)) {
      const leftMs = Math.ceil(untilMs - this.#clock.monotonicMs());
      if (leftMs < 1) return 'unknown';
      try {
        const [status] = await this.#driver.ask(sql, leftMs);
        if (status === 'committed' || status === 'aborted' || status === 'unknown') return status;
      } catch {
        // Unreachable, or still starting: ask again.
      }
      await this.#pause(pauseMs);
    }
  }

  /** The body's own error, unless a fence refused this very grant. */
  #ofBody(grant: Grant | Holding, asked: Grant, error: unknown): unknown {
    const stale = staleIn(error, this.name);
    if (stale === undefined || stale.resource !== asked.resource || stale.fencingToken !== asked.fencingToken)
      return error;
    return reportRefusal(grant, stale);
  }

  async #ask(sql: string, call: { resource: string; fencingToken: number }, withinMs: number): Promise<Row> {
    const untilMs = this.#clock.monotonicMs() + withinMs;
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS.most)) {
      try {
        return await this.#driver.ask(sql, Math.max(1, Math.ceil(untilMs - this.#clock.monotonicMs())));
      } catch (error) {
        if (!isConflict(error) || this.#clock.monotonicMs() + pauseMs >= untilMs)
          throw this.#failure(error, call, false);
      }
      await this.#pause(pauseMs);
    }
  }

  #failure(error: unknown, call: { resource: string; fencingToken: number }, isCertain: boolean): Error {
    const { resource, fencingToken } = call;
    return failureOf(error, { resource, fencingToken, fence: this.name, schema: this.#schema, isCertain });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.setTimer(ms, resolve, { ref: true }));
  }
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'something that cannot be shown';
  }
}

function limitOf(option: string, given: Duration): number {
  const ms = parseDuration(option, given);
  if (ms >= 1 && ms < 2 ** 31 - 2000) return ms;
  throw new ConfigError(option, `is ${show(given)}: must be at least 1 ms and at most 24 days`);
}
