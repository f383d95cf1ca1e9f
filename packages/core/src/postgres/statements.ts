import type { Grant } from '../fence/fence.ts';
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

  /** `s` is the schema, ready to be written. */
  constructor(s: string, limits: Limits) {
    this.#s = s;
    this.#limits = limits;
  }

  guard(grant: Grant): string {
    const { idleMs, lockMs } = this.#limits;
    return `select ${this.#s}.guard(${written(grant)}, ${idleMs}, ${lockMs})`;
  }

  admit(grant: Grant): string {
    const { idleMs, lockMs } = this.#limits;
    return `select ${this.#s}.admit(${written(grant)}, ${idleMs}, ${lockMs})`;
  }

  activate(grant: Grant): string {
    return `select ${this.#s}.activate(${written(grant)}, ${this.#limits.lockMs})`;
  }

  /** The activation, with the life of the server that it was made in and the system that this is a life of. */
  namedActivate(grant: Grant): string {
    return `${this.activate(grant)}, ${this.#s}.place(), ${this.#s}.system()`;
  }

  /** The guard, with the name of the transaction: what `outcome` asks for, should COMMIT not be answered. */
  namedGuard(grant: Grant): string {
    return `${this.guard(grant)}, pg_catalog.pg_current_xact_id()::text, ${this.#s}.place()`;
  }

  /** Fails unless the transaction is still the one of this name. */
  ending(xid: string): string {
    return `select ${this.#s}.ending(${literal('xid', xid)})`;
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
}

function written({ resource, fencingToken, leaseId }: Grant): string {
  return `${literal('resource', resource)}, ${fencingToken}, ${literal('leaseId', leaseId)}`;
}
