import { at, leaseIdOf, NOW_US, UNIT_US, type Process, type World } from './world.ts';

/**
 * Equal for worlds that differ only in which process is which, or in what can make no difference any more: how a leaseId
 * ended of which nothing can arrive, and, where requests are compared, what is said of a leaseId that is over.
 */
export function encode(world: World, areCompared: boolean): string {
  const parts: string[] = [];
  for (const [index, process] of world.processes.entries()) {
    const { phase, mode, dirty, trust, call } = process;
    let part: string = phase[0] ?? '';
    if (phase === 'asking') part += mode[0];
    if (phase === 'asking' || phase === 'holding') part += `${dirty ? 'd' : '-'}${trust}`;
    if (process.final) part += 'f';
    if (world.guarded !== null && phase === 'holding') part += encodeAccess(process);
    if (call !== null) part += `${call.kind[0]}${call.elapsed}`;
    if (call !== null && call.reply !== null) part += `${call.reply.kind[0]}${call.reply.remaining}`;
    if (world.guarded !== null && call?.reply?.kind === 'granted') part += `t${tokenOf(call.reply.fencingToken)}`;
    for (let attempt = 0; attempt <= process.attempt; attempt++) {
      part += encodeLeaseId(world, index, attempt, areCompared);
    }
    parts.push(part);
  }
  return `${world.crashes}.${world.fresh}.${world.revokes}${encodeGuarded(world)}|${parts.toSorted().join('|')}`;
}

function encodeAccess({ access, writes, fencingToken, floor }: Process): string {
  return `${access[0]}${writes}t${tokenOf(fencingToken)}${floor === 0 ? '' : `^${tokenOf(floor)}`}`;
}

/** The store's token, the fence, and the operator before it. */
function encodeGuarded({ guarded, store, operator, diagnoses }: World): string {
  if (guarded === null) return '';
  const { highest, accepted } = guarded;
  const token = store.lease === null ? '' : tokenOf(store.lease.fencingToken);
  const mark = highest === null ? '' : `${highest.leaseId === null ? 'S' : 'A'}${tokenOf(highest.fencingToken)}`;
  const most = accepted.length === 0 ? '' : tokenOf(Math.max(...accepted.map(({ fencingToken }) => fencingToken)));
  const by =
    operator === null ? '' : `${operator.stage[0]}${tokenOf(operator.fencingToken)}>${tokenOf(operator.sealToken)}`;
  return `.${token},${mark},${most},${diagnoses}${by}`;
}

function encodeLeaseId(world: World, index: number, attempt: number, areCompared: boolean): string {
  const { store, packets } = world;
  const process = at(world, index);
  const { lease, turn, queue, tombstones } = store;
  const leaseId = leaseIdOf(index, attempt);
  let asks = attempt === process.attempt && (process.phase === 'asking' || process.phase === 'holding');
  const arriving: string[] = [];
  for (const { leaseId: each, kind, mode, buries, floor } of packets) {
    if (each !== leaseId) continue;
    arriving.push(`${kind.slice(0, 3)}${mode[0]}${buries ? 'b' : ''}${floor === 0 ? '' : `^${tokenOf(floor)}`}`);
    if (kind === 'acquire') asks = true;
  }
  const handed = world.ticket === leaseId;
  asks ||= handed;
  let stored = handed ? 'K' : '';
  if (lease?.leaseId === leaseId) {
    const left = lease.owner === '' ? -1 : unitsTo(lease.expiresUs);
    const matters = asks || left > 0 || (left === 0 && (arriving.length > 0 || mayBeForced(world)));
    if (matters) stored += `L${left}${lease.revoked === '' ? '' : 'r'}${lease.extensions === 0 ? '' : 'e'}`;
  }
  if (turn?.leaseId === leaseId) stored += `T${unitsTo(turn.untilUs)}`;
  for (const [place, waiter] of queue.entries()) {
    if (waiter.leaseId === leaseId) stored += `Q${place}.${unitsTo(waiter.liveUntilUs)}`;
  }
  stored += encodeOperations(world, leaseId, asks);
  if (!asks && stored === '' && (areCompared || arriving.length === 0)) return '';
  if (asks) {
    if (process.spent[attempt] === true) stored += 's';
    for (const tombstone of tombstones) if (tombstone.leaseId === leaseId) stored += 'X';
  }
  return arriving.length === 0 ? `;${stored}` : `;${stored}${arriving.toSorted().join()}`;
}

/** What of this grant is under way to the resource, and whether anything of it was accepted, if more can be. */
function encodeOperations({ guarded, operator }: World, leaseId: string, asks: boolean): string {
  if (guarded === null) return '';
  const { highest, accepted, operations } = guarded;
  const its = operations.filter((each) => each.leaseId === leaseId);
  const mine = operator?.leaseId === leaseId ? 'O' : '';
  if (!asks && its.length === 0) return mine;
  const arriving = its.map(({ kind, fencingToken, fresh }) => `${kind[0]}${tokenOf(fencingToken)}${fresh ? '+' : ''}`);
  const place = accepted.findIndex((each) => each.leaseId === leaseId);
  const took = place < 0 ? '' : place === accepted.length - 1 ? 'A' : 'a';
  return `${mine}${arriving.toSorted().join()}${took}${highest?.leaseId === leaseId ? 'H' : ''}`;
}

function mayBeForced({ guarded, diagnoses, operator }: World): boolean {
  return guarded !== null && (diagnoses > 0 || operator !== null);
}

function tokenOf(fencingToken: number): number {
  return fencingToken - NOW_US;
}

function unitsTo(us: number): number {
  return (us - NOW_US) / UNIT_US;
}
