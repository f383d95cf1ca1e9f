import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { LeaseManager, MemoryLeaseStore, systemClock } from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { ownerIdentity, ownerLine, placeOf } from '../src/owner.ts';

describe('the identity of this process', () => {
  test('is read once and is the same for all managers, but for what each was told', () => {
    const plain = ownerIdentity();
    expect(plain).toMatchObject({ host: hostname(), pid: process.pid });
    expect(ownerIdentity()).toEqual(plain);
    expect(ownerIdentity('web-7')).toEqual({ ...plain, name: 'web-7' });
    expect(ownerIdentity({ version: '1.18.0' })).toEqual({ ...plain, version: '1.18.0' });
  });

  test.runIf(process.platform === 'linux')('has what makes a pid mean something', () => {
    const own = readFileSync('/proc/self/stat', 'utf8');
    const ticks = Number(own.slice(own.lastIndexOf(') ') + 2).split(' ')[19]);
    expect(ownerIdentity()).toMatchObject({
      startTicks: ticks,
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
      pidNamespace: expect.stringMatching(/^pid:\[\d+\]$/),
    });
  });

  test('is one line for people', () => {
    const identity = {
      ...ownerIdentity('web-7f9c'),
      pid: 4121,
      startedAt: '2026-01-15T02:41:07.123Z',
      version: '1.18.0',
    };
    expect(ownerLine(identity)).toBe('web-7f9c pid 4121 since 02:41:07Z v1.18.0');
  });

  test('comes back from inspect', async () => {
    const manager = new LeaseManager({ store: new MemoryLeaseStore(), owner: 'web-7' });
    expect(await manager.inspect('r')).toBeNull();
    const lease = await manager.acquire('r');
    const info = await manager.inspect('r');
    expect(info).toMatchObject({
      resource: 'r',
      state: 'held',
      leaseId: lease.leaseId,
      fencingToken: lease.fencingToken,
      ttlMs: 30_000,
      extensions: 0,
      revoked: false,
      previous: null,
      identity: JSON.parse(JSON.stringify(manager.owner)),
    });
    expect(info?.owner).toMatch(/^web-7 pid /);
    expect(info?.remainingMs).toBeGreaterThan(29_000);
    expect(Math.abs((info?.acquiredAt.getTime() ?? 0) - Date.now())).toBeLessThan(1000);
    await lease.release();
    expect(await manager.inspect('r')).toMatchObject({ state: 'free', owner: '', identity: null, remainingMs: 0 });
  });
});

describe('where a process runs', () => {
  const outer = '4'.repeat(64);
  const inner = 'ab'.repeat(32);
  test.each([
    ['a service', '0::/system.slice/reports.service\n', { unit: 'reports.service' }],
    ['a service that makes groups of its own', '0::/system.slice/a.service/worker-1.scope\n', { unit: 'a.service' }],
    ['a template', '0::/system.slice/system-web.slice/web@3.service\n', { unit: 'web@3.service' }],
    [
      'a service beside old hierarchies',
      '8:pids:/x\n1:name=systemd:/system.slice/b.service\n0::/\n',
      { unit: 'b.service' },
    ],
    ['a login', '0::/user.slice/user-0.slice/session-4.scope\n', { unit: 'session-4.scope' }],
    ['a unit of a user', '0::/user.slice/user-7.slice/user@7.service/app.slice/c.service\n', {}],
    ['a container', `0::/system.slice/docker-${inner}.scope\n`, { container: 'abababababab' }],
    ['a container in a container', `9:pids:/docker/${outer}/kubepods/pod1/${inner}\n`, { container: 'abababababab' }],
    ['a group of its own view', '0::/\n', {}],
    ['no such file', '', {}],
    ['a hostile name', '0::/--kill.service\n', {}],
  ])('is told by its cgroups: %s', (_, cgroups, place) => {
    expect(placeOf(cgroups)).toEqual(place);
  });
});

describe('the system clock', () => {
  test('tells µs that follow the wall clock and differ within a millisecond', () => {
    const readings = Array.from({ length: 200 }, () => systemClock.wallUs());
    expect(new Set(readings).size).toBe(200);
    expect(Math.abs((readings[199] as number) / 1000 - Date.now())).toBeLessThan(50);
  });

  test.runIf(process.platform === 'linux')('tells uptime to a tenth of a second', () => {
    // The process may be interrupted between two clocks: of several differences the largest is the one that was not.
    const difference = (): number => (systemClock.uptimeMs() as number) - systemClock.monotonicMs();
    const offset = (): number => Math.max(...Array.from({ length: 9 }, difference));
    const before = offset();
    const until = performance.now() + 50;
    while (performance.now() < until);
    expect(Math.abs(offset() - before)).toBeLessThan(25);
  });

  test('clamps timers that Node would fire at once', async () => {
    let fired = false;
    const timer = systemClock.setTimer(2 ** 40, () => (fired = true), { ref: false });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(fired).toBe(false);
    timer.clear();
  });
});
