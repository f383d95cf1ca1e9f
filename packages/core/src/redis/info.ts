/** What INFO, ROLE and their like answer, made readable. Nothing here asks anybody. */

import { endpointOf, endpointText, type Endpoint } from './endpoint.ts';

/** The fields of INFO by name, of all sections that were asked for. */
export type Info = ReadonlyMap<string, string>;

export function parseInfo(text: string): Info {
  const fields = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const colon = line.indexOf(':');
    if (colon > 0 && !line.startsWith('#')) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}

/** `ip=10.0.0.7,port=6379,state=online` by name. */
function parseParts(text: string): ReadonlyMap<string, string> {
  return new Map(
    text.split(',').map((part) => {
      const equals = part.indexOf('=');
      return [part.slice(0, equals), part.slice(equals + 1)];
    }),
  );
}

/** A reply of names and values, whatever the protocol and the client make of it: a flat list, a map or an object. */
export function pairsOf(reply: unknown): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  if (Array.isArray(reply)) {
    for (let at = 0; at + 1 < reply.length; at += 2) pairs.set(String(reply[at]), String(reply[at + 1]));
  } else if (reply instanceof Map) {
    for (const [name, value] of reply) pairs.set(String(name), String(value));
  } else if (typeof reply === 'object' && reply !== null) {
    for (const [name, value] of Object.entries(reply)) pairs.set(name, String(value));
  }
  return pairs;
}

/** A number that INFO has, or undefined. */
export function numberOf(info: Info, field: string): number | undefined {
  const text = info.get(field);
  const number = text === undefined || text === '' ? Number.NaN : Number(text);
  return Number.isFinite(number) ? number : undefined;
}

export interface Replica {
  readonly endpoint: Endpoint;
  readonly lagMs: number;
  readonly lagBytes: number;
}

/** The replicas of a server by section replication. */
export function replicasOf(info: Info): readonly Replica[] {
  const offset = numberOf(info, 'master_repl_offset') ?? 0;
  const replicas: Replica[] = [];
  for (const [field, text] of info) {
    if (!/^slave\d+$/.test(field)) continue;
    const parts = parseParts(text);
    const endpoint = endpointOf(parts.get('ip'), parts.get('port'));
    if (endpoint === undefined) continue;
    // One that still loads the data has confirmed nothing, whatever its lag says.
    const lagMs = parts.get('state') === 'online' ? Number(parts.get('lag') ?? 0) * 1000 : Infinity;
    replicas.push({ endpoint, lagMs, lagBytes: Math.max(0, offset - Number(parts.get('offset') ?? 0)) });
  }
  return replicas;
}

/** The servers that a server names: its replicas, or its master. */
export function neighboursOf(info: Info, role: unknown): readonly Endpoint[] {
  const found = [endpointOf(info.get('master_host'), info.get('master_port'))];
  for (const { endpoint } of replicasOf(info)) found.push(endpoint);
  if (Array.isArray(role)) {
    if (role[0] === 'slave') found.push(endpointOf(role[1], role[2]));
    else if (Array.isArray(role[2])) {
      for (const each of role[2] as readonly unknown[])
        if (Array.isArray(each)) found.push(endpointOf(each[0], each[1]));
    }
  }
  const byText = new Map<string, Endpoint>();
  for (const each of found) if (each !== undefined) byText.set(endpointText(each), each);
  return [...byText.values()];
}

/** What the server could not write to its disk the last time it tried; empty if it could. */
export function writeErrorOf(info: Info): string {
  const failed = [
    ['aof_last_write_status', 'the last write to the append-only file failed'],
    ['aof_last_bgrewrite_status', 'the last rewrite of the append-only file failed'],
    ['rdb_last_bgsave_status', 'the last snapshot failed'],
  ].filter(([field = '']) => (info.get(field) ?? 'ok') !== 'ok');
  return failed.map(([, text]) => text).join('; ');
}
