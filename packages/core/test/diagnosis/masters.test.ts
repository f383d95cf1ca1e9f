import { expect, test } from 'vitest';

import { masterFacts, mastersOf, untold } from '../../src/diagnosis/masters.ts';
import { unreadable } from '../../src/redis/server-evidence.ts';
import type { ServerEvidence } from '../../src/store/evidence.ts';
import { known, unknown } from '../../src/store/reading.ts';

const refused = unknown('not-permitted', 'NOPERM');

/** A server of which only this is known. */
function server(endpoint: string, told: Partial<ServerEvidence>): ServerEvidence {
  return { ...unreadable(endpoint, refused), ...told };
}

const master = (endpoint: string, runId: string, rest: Partial<ServerEvidence> = {}): ServerEvidence =>
  server(endpoint, { role: known('master'), runId: known(runId), mode: known('standalone'), ...rest });

test('two run ids are two masters, wherever they are; one with two addresses is one', () => {
  expect(mastersOf([master('a:1', 'x'), master('b:1', 'y')])).toBe(2);
  expect(mastersOf([master('a:1', 'x'), master('b:1', 'x')])).toBe(1);
  expect(mastersOf([master('a:1', 'x'), server('b:1', { role: known('replica') })])).toBe(1);
  expect(mastersOf([])).toBe(0);
});

test('where INFO is not permitted two addresses are no second master, and it is told that nobody knows', () => {
  const nameless = (endpoint: string) => server(endpoint, { role: known('master') });
  expect(mastersOf([nameless('localhost:1'), nameless('127.0.0.1:1')])).toBe(1);
  expect(untold([nameless('localhost:1'), nameless('127.0.0.1:1')])).toBe(true);
  expect(mastersOf([master('a:1', 'x'), nameless('b:1')])).toBe(1);
  // It hides no two that are known.
  expect(mastersOf([nameless('c:1'), master('a:1', 'x'), master('b:1', 'y')])).toBe(2);
});

test('primaries of a Cluster are masters of different data, but not the former and the new one of a slot', () => {
  const node = (endpoint: string, runId: string, id: string, before = ''): ServerEvidence =>
    master(endpoint, runId, {
      ...{ mode: known('cluster'), replicationId: known(id), previousReplicationId: known(before) },
    });
  expect(mastersOf([node('a:1', 'x', 'h1'), node('b:1', 'y', 'h2'), node('c:1', 'z', 'h3')])).toBe(1);
  expect(mastersOf([node('a:1', 'x', 'h4', 'h1'), node('b:1', 'y', 'h2'), node('c:1', 'z', 'h1')])).toBe(2);
});

test('two masters are named, and which of them was promoted, if their replication ids tell', () => {
  const before = master('a:1', 'x', { replicationId: known('h1'), previousReplicationId: known('') });
  const after = master('b:1', 'y', { replicationId: known('h2'), previousReplicationId: known('h1') });
  expect(masterFacts([before, master('alias:1', 'x'), after])).toEqual([
    { endpoint: 'a:1', promotedFrom: null },
    { endpoint: 'b:1', promotedFrom: 'a:1' },
  ]);
  expect(masterFacts([before, master('c:1', 'z')]).map(({ promotedFrom }) => promotedFrom)).toEqual([null, null]);
});
