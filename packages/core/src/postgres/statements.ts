import type { Grant } from '../fence/fence.ts';
import { show } from '../show.ts';
import type { Row } from './driver.ts';
import { literal } from './literal.ts';

/** Whole milliseconds. */
export interface Limits {
  readonly idleMs: number;
  readonly lockMs: number;
}

/** The calls of our functions, each one statement without parameters. */
export class Statements {
  readonly #s: string;
  readonly #limits: Limits;
  /** Grants as they were written last: a lease has one object for its grant. One of the user's may have been changed since. */
  readonly #written = new WeakMap<Grant, Grant & { readonly text: string }>();

  /** `s` is the schema, ready to be written. */
  constructor(s: string, limits: Limits) {
    this.#s = s;
    this.#limits = limits;
  }

  guard(grant: Grant): string {
    const { idleMs, lockMs } = this.#limits;
    return `select ${this.#s}.guard(${this.#write(grant)}, ${idleMs}, ${lockMs})`;
  }

  admit(grant: Grant): string {
    const { idleMs, lockMs } = this.#limits;
    return `select ${this.#s}.admit(${this.#write(grant)}, ${idleMs}, ${lockMs})`;
  }

  activate(grant: Grant): string {
    return `select ${this.#s}.activate(${this.#write(grant)}, ${this.#limits.lockMs})`;
  }

  /** The activation, with the life of the server that it was made in and the system that this is a life of. */
  namedActivate(grant: Grant): string {
    return `${this.activate(grant)}, ${this.#s}.place(), ${this.#s}.system()`;
  }

  /** The guard that answers the name of its transaction: what `outcome` asks for, should COMMIT not be answered. */
  namedGuard(grant: Grant): string {
    const { idleMs, lockMs } = this.#limits;
    return `select ${this.#s}.guard_write(${this.#write(grant)}, ${idleMs}, ${lockMs})`;
  }

  /** Fails unless the transaction is still the one of this number. Answers no row, which a client would have to read. */
  ending(xid: string): string {
    return `call ${this.#s}.ending(${literal('xid', xid)})`;
  }

  seal(resource: string, fencingToken: number): string {
    return `select ${this.#s}.seal(${literal('resource', resource)}, ${fencingToken}, ${this.#limits.lockMs})`;
  }

  highest(resource: string): string {
    return `select h.token::text, h.lease_id from ${this.#s}.highest(${literal('resource', resource)}) h`;
  }

  outcome(xid: string, place: string, system: string): string {
    return `select ${this.#s}.outcome(${literal('xid', xid)}, ${literal('place', place)}, ${literal('system', system)})`;
  }

  #write(grant: Grant): string {
    const { resource, fencingToken, leaseId } = grant;
    const last = this.#written.get(grant);
    if (last?.resource === resource && last.fencingToken === fencingToken && last.leaseId === leaseId) return last.text;
    const text = `${literal('resource', resource)}, ${fencingToken}, ${literal('leaseId', leaseId)}`;
    this.#written.set(grant, { resource, fencingToken, leaseId, text });
    return text;
  }
}

/** A transaction, and in which life of which server it is; an empty place where that cannot be told. */
export interface TransactionName {
  readonly xid: string;
  readonly place: string;
}

/** What `namedGuard` was answered. Throws for anything else, such as what a type parser of the user has made of it. */
export function nameIn([answer]: Row): TransactionName {
  const [, xid, place] = (typeof answer === 'string' && /^(\d+) [^|]*\|(.*)$/s.exec(answer)) || [];
  if (xid === undefined || place === undefined) throw new Error(`the guard answered ${show(answer)}`);
  return { xid, place };
}
