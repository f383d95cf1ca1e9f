import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { ensure } from '../../scripts/services/obtain.mjs';
import { FakeMachine, type FakeMachineOptions } from './fake-machine.ts';

const redis7 = 'Redis server v=7.0.15 sha=00000000:0';
const apt = { '/usr/bin/apt-get': '', '/usr/bin/dpkg-deb': '' };

let cache: string;

beforeEach(() => {
  cache = guardedFolder('cache');
});

afterEach(() => {
  removeFolder(cache);
});

/** Debian as far as these tests see it: `available` are its packages, `needs` what apt would install with them. */
function debian(available: readonly string[], needs: readonly string[] = [], more: FakeMachineOptions = {}) {
  return new FakeMachine({
    ...more,
    programs: { ...apt, ...more.programs },
    run(line, cwd) {
      const special = more.run?.call(this, line, cwd);
      if (special !== undefined) return special;
      const words = line.split(' ');
      if (words[0] === 'apt-cache') {
        if (!available.includes(words.at(-1) ?? '')) return { ok: false, errors: 'N: No packages found' };
        return { output: 'Package: postgresql\nDepends: postgresql-15\n' };
      }
      if (line.includes('--print-uris')) {
        return {
          output: needs.map((name) => `'mirror/${name}_1.0_amd64.deb' ${name}_1.0_amd64.deb 1 SHA256:0\n`).join(''),
        };
      }
      if (line.includes(' download ')) {
        for (const name of words.slice(words.indexOf('download') + 1))
          this.files.add(join(cwd ?? '', `${name}_1.0.deb`));
      }
      if (words[0] === 'dpkg-deb' && line.includes('redis-tools')) {
        this.programs.set(join(cache, 'redis/usr/bin/redis-check-rdb'), redis7);
      }
      return undefined;
    },
  });
}

test('what is there is not fetched', async () => {
  const machine = debian([], [], { programs: { '/usr/bin/redis-server': redis7 } });
  expect(await ensure(['redis'], { machine, cache })).toEqual({ redis: '/usr/bin/redis-server' });
  expect(machine.ran).toEqual([]);
});

test('Debian: download and unpack, with the libraries that are missing and nothing else', async () => {
  const machine = debian(['redis-tools'], ['redis-tools', 'liblzf1', 'libjemalloc2', 'adduser', 'libllvm14', 'libc6']);
  const paths = await ensure(['redis'], { machine, cache });
  expect(paths).toEqual({ redis: join(cache, 'redis/usr/bin/redis-check-rdb') });
  expect(machine.ran.filter((line) => line.includes(' download '))).toEqual([
    'apt-get -qq download redis-tools liblzf1 libjemalloc2',
  ]);
  expect(machine.ran.some((line) => /update|sudo|apt-get install/.test(line))).toBe(false);
});

test('Debian: with missing or stale lists it fetches its own, below .cache', async () => {
  let isStale = true;
  const machine = debian(['redis-tools'], [], {
    run(line) {
      if (line.endsWith('update')) isStale = false;
      return line.includes(' download ') && isStale ? { ok: false, errors: 'E: 404 Not Found' } : undefined;
    },
  });
  expect(await ensure(['redis'], { machine, cache })).toHaveProperty('redis');
  const update = machine.ran.find((line) => line.endsWith('update'));
  expect(update).toContain(`Dir::State::lists=${cache}/apt/lists`);
  expect(existsSync(join(cache, 'apt/lists/partial'))).toBe(true);
});

test('Debian: PostgreSQL is the package of the release', async () => {
  const bin = join(cache, 'postgres/usr/lib/postgresql/15/bin');
  const machine = debian(['postgresql'], ['libpq5', 'postgresql-common', 'ssl-cert'], {
    run(line) {
      if (line.startsWith('dpkg-deb')) {
        this.programs.set(`${bin}/initdb`, 'initdb (PostgreSQL) 15.18');
        this.programs.set(`${bin}/postgres`, 'postgres (PostgreSQL) 15.18');
      }
      return undefined;
    },
  });
  expect(await ensure(['postgres'], { machine, cache })).toEqual({ postgres: bin });
  expect(machine.ran).toContain('apt-get -qq download postgresql-15 libpq5');
});

test('a failed download leaves no half of it', async () => {
  const machine = debian(['redis-tools'], [], {
    run(line, cwd) {
      if (!line.startsWith('dpkg-deb')) return undefined;
      writeFileSync(join(cwd ?? cache, 'half'), '');
      return { ok: false, errors: 'dpkg-deb: error: archive is corrupt' };
    },
  });
  await expect(ensure(['redis'], { machine, cache })).rejects.toThrow('archive is corrupt');
  expect(existsSync(join(cache, 'redis'))).toBe(false);
});

test('Homebrew on a Mac', async () => {
  const machine = new FakeMachine({
    platform: 'darwin',
    env: { PATH: '/opt/homebrew/bin' },
    programs: { '/opt/homebrew/bin/brew': '' },
    run(line) {
      if (line === 'brew install --quiet redis') this.programs.set('/opt/homebrew/opt/redis/bin/redis-server', redis7);
      return undefined;
    },
  });
  expect(await ensure(['redis'], { machine, cache })).toEqual({ redis: '/opt/homebrew/opt/redis/bin/redis-server' });
});

test('no package manager: an instruction for each thing, with the variable', async () => {
  const machine = new FakeMachine({ programs: { '/usr/bin/redis-server': 'Redis server v=6.2.1 sha' } });
  const error = await ensure(['redis', 'postgres'], { machine, cache }).catch((reason: unknown) => reason);
  expect(String(error)).toMatch(/redis-server 7\.0 or newer is needed and was not found/);
  expect(String(error)).toMatch(/version 6\.2, at least 7 is needed/);
  expect(String(error)).toMatch(/PostgreSQL 13 or newer/);
  expect(String(error)).toMatch(/LEASEHOLD_REDIS_SERVER[\s\S]*LEASEHOLD_POSTGRES_BIN/);
});

test('an optional thing that is not to be had is left out, the others are there', async () => {
  const machine = new FakeMachine({ programs: { '/usr/bin/redis-server': redis7 } });
  const paths = await ensure(['redis', 'faketime'], { machine, cache, optional: ['faketime'] });
  expect(paths).toEqual({ redis: '/usr/bin/redis-server' });
});

test('this file names no server of packages, and neither do the scripts', () => {
  const script = readFileSync(new URL('../../scripts/services/obtain.mjs', import.meta.url), 'utf8');
  expect(script).not.toMatch(/https?:/);
});
