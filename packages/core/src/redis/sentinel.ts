import type { Ask } from './ask.ts';
import { endpointOf, type Endpoint } from './endpoint.ts';
import { pairsOf } from './info.ts';

/** Whom a sentinel takes for the master of a group, and for its replicas; what it does not say is left out. */
export async function masterAndReplicas(ask: Ask, group: string): Promise<readonly Endpoint[]> {
  const [master, replicas] = await Promise.all([
    ask('sentinel', 'get-master-addr-by-name', group),
    ask('sentinel', 'replicas', group),
  ]);
  const found: (Endpoint | undefined)[] = [];
  if (master.known && Array.isArray(master.value)) found.push(endpointOf(master.value[0], master.value[1]));
  if (replicas.known && Array.isArray(replicas.value)) {
    for (const each of replicas.value.map(pairsOf)) found.push(endpointOf(each.get('ip'), each.get('port')));
  }
  return found.filter((each) => each !== undefined);
}
