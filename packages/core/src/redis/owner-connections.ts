import { ownerIdentity, type OwnerIdentity } from '../owner.ts';
import type { OwnerConnection } from '../store/evidence.ts';
import { known, unknown, type Reading } from '../store/reading.ts';
import type { Ask } from './ask.ts';
import { connectionNameOf } from './own-name.ts';

/**
 * The connections that bear the name of an owner's process. That there is none counts only if our own is among those
 * listed, by its name: else names are not given here, by the user's wish or for lack of the right to.
 */
export async function ownerConnections(
  ask: Ask,
  owner: OwnerIdentity | null,
): Promise<Reading<readonly OwnerConnection[]>> {
  if (owner === null) return unknown('not-known', 'nobody owns it');
  const list = await ask('client', 'list');
  if (!list.known) return list;
  const clients = String(list.value)
    .split('\n')
    .map((line) => new Map(line.split(' ').map((part) => split(part))));
  const named = (instance: string) => clients.filter((client) => client.get('name') === connectionNameOf(instance));
  const found = named(owner.instance);
  if (found.length === 0 && named(ownerIdentity().instance).length === 0) {
    return unknown(
      'not-known',
      'connections bear no name of Leasehold here (a connectionName of your own, or no right to CLIENT SETNAME), so the owner’s cannot be told',
    );
  }
  return known(
    found.map((client) => ({
      address: client.get('addr') ?? '',
      ageMs: Number(client.get('age')) * 1000,
      idleMs: Number(client.get('idle')) * 1000,
    })),
  );
}

function split(part: string): [string, string] {
  const equals = part.indexOf('=');
  return [part.slice(0, equals), part.slice(equals + 1)];
}
