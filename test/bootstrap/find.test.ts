import { expect, test } from 'vitest';

import { find, tools } from '../../scripts/services/binaries.mjs';
import { FakeMachine } from './fake-machine.ts';

const redis7 = 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64';
const redis6 = 'Redis server v=6.0.16 sha=00000000:0';
const postgres = (version: string) => `postgres (PostgreSQL) ${version}`;
const initdb = (version: string) => `initdb (PostgreSQL) ${version}`;
const cache = '/repo/.cache';

test('an empty machine has nothing', () => {
  for (const name of ['redis', 'postgres', ...tools] as const) {
    expect(find(name, new FakeMachine({}), cache)).toEqual({ path: null, problems: [] });
  }
});

test('redis-server on the PATH comes first', () => {
  const machine = new FakeMachine({
    env: { PATH: '/opt/redis/bin:/usr/bin' },
    programs: { '/usr/bin/redis-server': redis7, '/opt/redis/bin/redis-server': redis7 },
  });
  expect(find('redis', machine, cache)).toEqual({ path: '/opt/redis/bin/redis-server' });
});

test("Debian's redis-check-rdb is a server", () => {
  const machine = new FakeMachine({ programs: { '/usr/bin/redis-check-rdb': redis7 } });
  expect(find('redis', machine, cache)).toEqual({ path: '/usr/bin/redis-check-rdb' });
});

test('a redis-check-rdb that is only that, and an old server, are passed over, and said', () => {
  const machine = new FakeMachine({
    programs: { '/usr/local/bin/redis-check-rdb': null, '/usr/bin/redis-server': redis6 },
  });
  const found = find('redis', machine, cache);
  expect(found.path).toBeNull();
  expect(found).toHaveProperty('problems', [
    '/usr/bin/redis-server is version 6.0, at least 7 is needed',
    '/usr/local/bin/redis-check-rdb does not run',
  ]);
});

test('Homebrew, on both kinds of Mac', () => {
  for (const prefix of ['/opt/homebrew', '/usr/local']) {
    const keg = `${prefix}/opt/postgresql@17/bin`;
    const machine = new FakeMachine({
      platform: 'darwin',
      files: [`${prefix}/lib/faketime/libfaketimeMT.1.dylib`],
      programs: {
        [`${prefix}/opt/redis/bin/redis-server`]: redis7,
        [`${keg}/initdb`]: initdb('17.2'),
        [`${keg}/postgres`]: postgres('17.2'),
      },
    });
    expect(find('redis', machine, cache).path).toBe(`${prefix}/opt/redis/bin/redis-server`);
    expect(find('postgres', machine, cache).path).toBe(keg);
    expect(find('faketime', machine, cache).path).toBe(`${prefix}/lib/faketime/libfaketimeMT.1.dylib`);
  }
});

test('of several PostgreSQL the newest; one without initdb or too old will not do', () => {
  const bin = (version: string) => `/usr/lib/postgresql/${version}/bin`;
  const programs: Record<string, string> = { [`${bin('16')}/postgres`]: postgres('16.1') };
  for (const version of ['9', '12', '14', '15']) {
    programs[`${bin(version)}/initdb`] = initdb(version);
    programs[`${bin(version)}/postgres`] = postgres(`${version}.3 (Debian)`);
  }
  expect(find('postgres', new FakeMachine({ programs }), cache)).toEqual({ path: bin('15') });

  delete programs[`${bin('15')}/initdb`];
  delete programs[`${bin('14')}/postgres`];
  expect(find('postgres', new FakeMachine({ programs }), cache)).toEqual({
    path: null,
    problems: [
      '/usr/lib/postgresql/12/bin/postgres is version 12, at least 13 is needed',
      '/usr/lib/postgresql/9/bin/postgres is version 9, at least 13 is needed',
    ],
  });
});

test('what was unpacked below .cache is found last', () => {
  const unpacked = {
    [`${cache}/redis/usr/bin/redis-check-rdb`]: redis7,
    [`${cache}/postgres/usr/lib/postgresql/15/bin/initdb`]: initdb('15'),
    [`${cache}/postgres/usr/lib/postgresql/15/bin/postgres`]: postgres('15'),
  };
  const library = `${cache}/faketime/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1`;
  const machine = new FakeMachine({ programs: unpacked, files: [library] });
  expect(find('redis', machine, cache).path).toBe(`${cache}/redis/usr/bin/redis-check-rdb`);
  expect(find('postgres', machine, cache).path).toBe(`${cache}/postgres/usr/lib/postgresql/15/bin`);
  expect(find('faketime', machine, cache).path).toBe(library);

  machine.programs.set('/usr/bin/redis-check-rdb', redis7);
  expect(find('redis', machine, cache).path).toBe('/usr/bin/redis-check-rdb');
});

test('a variable is taken at its word, and a wrong one is an error', () => {
  const programs = { '/mine/redis-server': redis7, '/old/redis-server': redis6, '/usr/bin/redis-server': redis7 };
  const at = (path: string) =>
    find('redis', new FakeMachine({ programs, env: { LEASEHOLD_REDIS_SERVER: path } }), cache);
  expect(at('/mine/redis-server')).toEqual({ path: '/mine/redis-server' });
  expect(at('')).toEqual({ path: '/usr/bin/redis-server' });
  expect(() => at('/old/redis-server')).toThrow('LEASEHOLD_REDIS_SERVER: /old/redis-server is version 6.0');
  expect(() => at('/none')).toThrow('LEASEHOLD_REDIS_SERVER: /none is not a program');
});
