/** What one server says of itself. */

import type { Clock } from '../clock.ts';
import type { ServerEvidence } from '../store/evidence.ts';
import { known, unknown, valueOf, type Reading } from '../store/reading.ts';
import type { Ask } from './ask.ts';
import { endpointText, type Endpoint } from './endpoint.ts';
import { neighboursOf, numberOf, pairsOf, parseInfo, replicasOf, writeErrorOf, type Info } from './info.ts';

/** A server's evidence, and the servers that it names. */
export interface ServerFound {
  readonly evidence: ServerEvidence;
  readonly neighbours: readonly Endpoint[];
}

const SECTIONS = ['server', 'clients', 'memory', 'persistence', 'stats', 'replication'];

const NO_REPLICATION = '0'.repeat(40);

/** Nothing is known of it, for one reason. */
export function unreadable(endpoint: string, reason: Reading<never>): ServerEvidence {
  return {
    endpoint,
    ...{ version: reason, mode: reason, role: reason, runId: reason },
    ...{ replicationId: reason, previousReplicationId: reason, settings: reason },
    ...{ uptimeMs: reason, loading: reason, linkUp: reason, replicas: reason, evictionPolicy: reason },
    ...{ evictedKeys: reason, usedBytes: reason, maxBytes: reason, persistence: reason, minReplicas: reason },
    clockOffset: reason,
  };
}

export async function askServer(endpoint: string, ask: Ask, clock: Clock): Promise<ServerFound> {
  // Alone, so that nothing else is in the round trip.
  const clockOffset = await offsetOf(ask, clock);
  if (!clockOffset.known && clockOffset.why === 'unreachable') {
    return { evidence: unreadable(endpoint, clockOffset), neighbours: [] };
  }
  const [said, policy, fsync, save, replicas] = await Promise.all([
    ask('info', ...SECTIONS),
    ...['maxmemory-policy', 'appendfsync', 'save', 'min-replicas-to-write'].map((name) => setting(ask, name)),
  ]);
  const info: Reading<Info> = said.known ? known(parseInfo(String(said.value))) : said;
  const fields = valueOf(info) ?? new Map<string, string>();
  // What INFO has told is not asked again: it would need one right more.
  const role = fields.has('role') ? NOT_ASKED : await ask('role');
  const evidence: ServerEvidence = {
    endpoint,
    version: of(info, 'redis_version', () => versionOf(fields)),
    mode: text(info, 'redis_mode'),
    role: roleOf(fields, role),
    runId: text(info, 'run_id'),
    replicationId: text(info, 'master_replid'),
    previousReplicationId: of(info, 'master_replid2', (id) => (id === NO_REPLICATION ? '' : id)),
    uptimeMs: of(info, 'uptime_in_seconds', (seconds) => Number(seconds) * 1000),
    loading: of(info, 'loading', (flag) => flag === '1'),
    linkUp: of(info, 'role', (name) => (name === 'master' ? null : fields.get('master_link_status') === 'up')),
    replicas: of(info, 'connected_slaves', () =>
      replicasOf(fields).map(({ endpoint: at, ...lag }) => ({ endpoint: endpointText(at), ...lag })),
    ),
    evictionPolicy: first(text(info, 'maxmemory_policy'), policy),
    evictedKeys: number(info, 'evicted_keys'),
    usedBytes: number(info, 'used_memory'),
    maxBytes: number(info, 'maxmemory'),
    persistence: of(info, 'aof_enabled', (flag) => ({
      appendOnly: flag === '1',
      fsync: flag === '1' ? (valueOf(fsync ?? NOT_ASKED) ?? '') : '',
      snapshots: valueOf(save ?? NOT_ASKED) ?? '',
      error: writeErrorOf(fields),
    })),
    settings: save?.known === true ? known(true) : (save ?? NOT_ASKED),
    minReplicas: minReplicasOf(info, replicas ?? NOT_ASKED),
    clockOffset,
  };
  return { evidence, neighbours: neighboursOf(fields, valueOf(role)) };
}

const NOT_ASKED: Reading<never> = unknown('not-known', 'not asked for');

/** Its clock against our wall clock in the middle of the round trip. */
async function offsetOf(ask: Ask, clock: Clock): Promise<ServerEvidence['clockOffset']> {
  const [sentMs, wallMs] = [clock.monotonicMs(), clock.wallMs()];
  const time = await ask('time');
  if (!time.known) return time;
  const errorMs = (clock.monotonicMs() - sentMs) / 2;
  const [seconds, micros] = Array.isArray(time.value) ? time.value.map(Number) : [];
  const serverMs = (seconds ?? Number.NaN) * 1000 + (micros ?? Number.NaN) / 1000;
  if (!Number.isFinite(serverMs)) return unknown('not-known', 'gave no usable answer to time');
  return known({ offsetMs: serverMs - (wallMs + errorMs), errorMs });
}

async function setting(ask: Ask, name: string): Promise<Reading<string>> {
  const reply = await ask('config', 'get', name);
  if (!reply.known) return reply;
  const value = pairsOf(reply.value).get(name);
  return value === undefined ? unknown('not-known', `the server knows no setting ${name}`) : known(value);
}

function of<T>(info: Reading<Info>, field: string, read: (value: string) => T): Reading<T> {
  if (!info.known) return info;
  const value = info.value.get(field);
  return value === undefined ? unknown('not-known', `INFO has no ${field}`) : known(read(value));
}

function text(info: Reading<Info>, field: string): Reading<string> {
  return of(info, field, (value) => value);
}

function number(info: Reading<Info>, field: string): Reading<number> {
  if (!info.known) return info;
  const value = numberOf(info.value, field);
  return value === undefined ? unknown('not-known', `INFO has no ${field}`) : known(value);
}

function first<T>(preferred: Reading<T>, other: Reading<T> | undefined): Reading<T> {
  return preferred.known || other?.known !== true ? preferred : other;
}

/** What calls itself something else says so first: its `redis_version` is the one that it is compatible with. */
function versionOf(info: Info): string {
  const valkey = info.get('valkey_version');
  return valkey === undefined ? (info.get('redis_version') ?? '') : `valkey ${valkey}`;
}

function roleOf(info: Info, role: Reading<unknown>): ServerEvidence['role'] {
  const name = info.get('role') ?? (role.known && Array.isArray(role.value) ? String(role.value[0]) : undefined);
  if (name === 'master') return known('master');
  if (name === 'slave' || name === 'replica') return known('replica');
  return role.known ? unknown('not-known', `the server calls itself ${name ?? 'nothing'}`) : role;
}

/** INFO counts the replicas that are good enough only where some are asked for. */
function minReplicasOf(info: Reading<Info>, configured: Reading<string>): Reading<number> {
  if (configured.known) return known(Number(configured.value));
  if (info.known && info.value.get('role') === 'master' && !info.value.has('min_slaves_good_slaves')) return known(0);
  return configured;
}
