import { expect, test } from 'vitest';

import { systemClock } from '../../src/clock.ts';
import type { Ask } from '../../src/redis/ask.ts';
import { askServer } from '../../src/redis/server-evidence.ts';
import { known, unknown } from '../../src/store/reading.ts';

const refused = unknown('not-permitted', 'NOPERM');

/** A server that says this in INFO, answers TIME and permits nothing else. */
function saying(fields: Readonly<Record<string, string>>): Ask {
  const text = Object.entries(fields).map(([name, value]) => `${name}:${value}\r\n`);
  return (command) => {
    if (command === 'time') return Promise.resolve(known(['1700000000', '5']));
    return Promise.resolve(command === 'info' ? known(`# Section\r\n${text.join('')}`) : refused);
  };
}

async function evidenceOf(fields: Readonly<Record<string, string>>) {
  return (await askServer('127.0.0.1:6379', saying(fields), systemClock)).evidence;
}

test('a replica without a link to its master says so', async () => {
  const lost = await evidenceOf({ role: 'slave', master_link_status: 'down' });
  expect(lost).toMatchObject({ role: known('replica'), linkUp: known(false), minReplicas: refused });
  expect(await evidenceOf({ role: 'slave', master_link_status: 'up' })).toMatchObject({ linkUp: known(true) });
});

test('what could not be written to the disk is told, and what could be is not', async () => {
  const fine = { aof_enabled: '1', aof_last_write_status: 'ok', rdb_last_bgsave_status: 'ok' };
  const persistence = { appendOnly: true, fsync: '', snapshots: '' };
  expect((await evidenceOf(fine)).persistence).toEqual(known({ ...persistence, error: '' }));
  for (const [field, error] of [
    ['aof_last_write_status', 'the last write to the append-only file failed'],
    ['aof_last_bgrewrite_status', 'the last rewrite of the append-only file failed'],
    ['rdb_last_bgsave_status', 'the last snapshot failed'],
  ] as const) {
    const { persistence: told } = await evidenceOf({ ...fine, [field]: 'err' });
    expect(told).toEqual(known({ ...persistence, error }));
  }
});

test('a replica that still loads the data is behind without end, whatever its lag', async () => {
  const { replicas } = await evidenceOf({
    role: 'master',
    connected_slaves: '3',
    master_repl_offset: '500',
    slave0: 'ip=10.0.0.7,port=6379,state=online,offset=480,lag=1',
    slave1: 'ip=10.0.0.8,port=6379,state=send_bulk,offset=0,lag=0',
    slave2: 'ip=,port=6379,state=online,offset=0,lag=0',
  });
  expect(replicas).toEqual(
    known([
      { endpoint: '10.0.0.7:6379', lagMs: 1000, lagBytes: 20 },
      { endpoint: '10.0.0.8:6379', lagMs: Infinity, lagBytes: 500 },
    ]),
  );
});
