import { AsyncLocalStorage } from 'node:async_hooks';
import type { Lease } from './lease.ts';

/** A `run` body and the bodies around it. */
export interface Scope {
  readonly lease: Lease;
  readonly enclosing: Scope | undefined;
  /** The body has settled; what it left behind (timers, pools) keeps the scope but is no longer inside. */
  settled: boolean;
}

const scopes = new AsyncLocalStorage<Scope>();

export function currentScope(): Scope | undefined {
  return scopes.getStore();
}

/** Calls `body` in a scope of its own. */
export function inScope<T>(scope: Scope, body: () => T): T {
  return scopes.run(scope, body);
}

/**
 * The lease of the innermost `run` body that this code runs in, however deep below it; undefined outside of one. It is
 * the caller's to check: work left behind by a settled body sees its lease as released.
 */
export function currentLease(): Lease | undefined {
  return currentScope()?.lease;
}
