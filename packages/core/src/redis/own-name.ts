import { ownerIdentity } from '../owner.ts';

/** By which diagnosis knows the connections of an owner in CLIENT LIST. */
export function connectionNameOf(instance: string): string {
  return `leasehold:${instance}`;
}

/** The name of our own connections, unless the user gave one: theirs may mean something to somebody. */
export function ownName(given: unknown): string {
  return typeof given === 'string' && given !== '' ? given : connectionNameOf(ownerIdentity().instance);
}
