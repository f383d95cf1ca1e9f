import { unlink } from 'node:fs/promises';
import { afterAll, describe, expect, test, vi } from 'vitest';

import { fileFence } from '../../../src/conditional/file/fence.ts';
import { thisProcess } from '../../../src/conditional/file/holder.ts';
import { FileLock } from '../../../src/conditional/file/lock.ts';
import { Folder, newGrant } from './folder.ts';
import { Gates } from './gates.ts';
import { deadHolder, newCall, newInstance, placeIn, type Plant } from './instance.ts';

const onLinux = describe.runIf(process.platform === 'linux');
const dead = 'd'.repeat(32);
const breaker = 'e'.repeat(32);
const third = 'f'.repeat(32);

afterAll(() => vi.resetModules());

describe('a lock', () => {
  test('is held by one at a time, and says by whom', async () => {
    await using folder = await Folder.make();
    const place = placeIn(folder);
    const lock = await FileLock.take(place, newCall());
    expect(await folder.names()).toEqual(['data.fence.lock']);
    expect(JSON.parse(await folder.read('data.fence.lock'))).toMatchObject({ pid: process.pid });
    expect(await lock.isHeld()).toBe(true);

    const gates = new Gates();
    const other = await newInstance({ fs: (sound) => gates.wrap(sound) });
    const asked = gates.hold(/^open data\.fence\.lock$/);
    const next = other.FileLock.take(place, newCall());
    await asked.reached;
    asked.open();
    expect(await lock.isHeld()).toBe(true);
    await lock.release();
    const second = await next;
    expect(await second.isHeld()).toBe(true);
    expect(await lock.isHeld()).toBe(false);
    await second.release();
    expect(await folder.names()).toEqual([]);
  });

  test('that was removed by hand is not held any more, and what another holds now is left alone', async () => {
    await using folder = await Folder.make();
    const place = placeIn(folder);
    const lock = await FileLock.take(place, newCall());
    await unlink(place.lock);
    expect(await lock.isHeld()).toBe(false);
    const other = await newInstance();
    const fresh = await other.FileLock.take(place, newCall());
    await lock.release();
    expect(await fresh.isHeld()).toBe(true);
    await fresh.release();
  });

  test.each([
    ['no holder', '', 'does not say who holds it'],
    ['half a holder', JSON.stringify(thisProcess(dead)).slice(0, 50), 'does not say who holds it'],
    ['a living one', JSON.stringify(thisProcess(dead)), `pid ${process.pid} on `],
    ['one of another machine', JSON.stringify({ ...deadHolder(dead), machineId: 'x' }), 'on another machine'],
    [
      'one of another container',
      JSON.stringify({ ...deadHolder(dead), pidNamespace: 'x' }),
      'in another pid namespace',
    ],
    ['one whose start is not known', JSON.stringify({ ...thisProcess(dead), startTicks: undefined }), 'in use, by it'],
  ])('with %s is never broken: calls wait, and then say so', async (_, content, why) => {
    await using folder = await Folder.make();
    await folder.write('data.fence.lock', content);
    const fence = fileFence({ path: () => folder.at('data'), timeout: 120 });
    const calls = [
      () => fence.activate(newGrant()),
      () => fence.write(newGrant(), (tx) => tx.write('one')),
      () => fence.seal('test/file', 7),
    ];
    const failures = await Promise.all(calls.map((call) => call().then(null, (error: unknown) => error as Error)));
    for (const error of failures) {
      expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
      expect(error?.message).toContain(`lock file ${folder.at('data.fence.lock')}`);
      expect(error?.message).toContain(why);
    }
    expect(await folder.read('data.fence.lock')).toBe(content);
    expect((await folder.names()).filter((name) => !name.startsWith('data.fence.lock'))).toEqual([]);
  });
});

onLinux('the lock of a dead process', () => {
  test('is broken at once', async () => {
    await using folder = await Folder.make();
    await folder.write('data.fence.lock', JSON.stringify(deadHolder(dead)));
    // It died between the link and the removal of the other name.
    await folder.write(`data.fence.lock.${dead}`, JSON.stringify(deadHolder(dead)));
    const fence = fileFence({ path: () => folder.at('data') });
    await fence.write(newGrant(), (tx) => tx.write('one'));
    expect(await folder.names()).toEqual(['data', 'data.fence']);
  });

  test('is broken also when one died who was about to do that, and another one who was about to clear that away', async () => {
    await using folder = await Folder.make();
    await folder.write('data.fence.lock', JSON.stringify(deadHolder(dead)));
    await folder.write(`data.fence.break.${dead}`, JSON.stringify(deadHolder(breaker)));
    await folder.write(`data.fence.break.${breaker}`, JSON.stringify(deadHolder(third)));
    const lock = await FileLock.take(placeIn(folder), newCall());
    expect(await folder.names()).toEqual(['data.fence.lock']);
    await lock.release();
  });

  test('stays while a living one is about to break it, which is said', async () => {
    await using folder = await Folder.make();
    await folder.write('data.fence.lock', JSON.stringify(deadHolder(dead)));
    await folder.write(`data.fence.break.${dead}`, JSON.stringify(thisProcess(breaker)));
    const fence = fileFence({ path: () => folder.at('data'), timeout: 100 });
    await expect(fence.activate(newGrant())).rejects.toThrow(
      `lock file ${folder.at('data.fence.break.')}${dead} is held`,
    );
    expect(await folder.names()).toContain('data.fence.lock');
  });

  test('is broken by one of fifty, and they hold it one after the other', async () => {
    await using folder = await Folder.make();
    const place = placeIn(folder);
    await folder.write('data.fence.lock', JSON.stringify(deadHolder(dead)));
    const instances: { FileLock: typeof FileLock }[] = [];
    for (let index = 0; index < 50; index++) instances.push(await newInstance());
    let inside = 0;
    let most = 0;
    let done = 0;
    const work = async ({ FileLock: Lock }: { FileLock: typeof FileLock }): Promise<void> => {
      const lock = await Lock.take(place, newCall());
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve));
      expect(await lock.isHeld()).toBe(true);
      inside--;
      await lock.release();
      done++;
    };
    await Promise.all(instances.map(work));
    expect([most, done]).toEqual([1, 50]);
    expect(await folder.names()).toEqual([]);
  });

  /**
   * Two see the same dead lock. One removes it and takes its own; the other one stands still in between. Whether both hold
   * the lock in the end.
   */
  async function breakTwice(plant: Plant): Promise<boolean> {
    await using folder = await Folder.make();
    const place = placeIn(folder);
    await folder.write('data.fence.lock', JSON.stringify(deadHolder(dead)));
    const [one, other] = [new Gates(), new Gates()];
    const instance = (gates: Gates): Promise<{ FileLock: typeof FileLock }> =>
      newInstance({ ...plant, fs: (sound) => gates.wrap((plant.fs ?? ((same) => same))(sound)) });
    const [first, second] = [await instance(one), await instance(other)];
    const call = newCall();

    const firstIsAboutTo = one.hold(/^unlink data\.fence\.lock$/);
    const firstLock = first.FileLock.take(place, newCall());
    await firstIsAboutTo.reached;
    const secondIsAboutTo = other.hold(/^unlink data\.fence\.lock$/);
    const secondLock = second.FileLock.take(place, call).catch(() => null);
    // With a sound lock the second does not come to that: it finds that the first is at it, and looks again and again.
    const looks = async (times: number): Promise<void> => {
      const before = other.steps.length;
      while (other.steps.length < before + times) await new Promise((resolve) => setImmediate(resolve));
    };
    await Promise.race([secondIsAboutTo.reached, looks(12)]);
    firstIsAboutTo.open();
    const held = await firstLock;
    secondIsAboutTo.open();
    // By then it has removed the fresh lock, or looked at it.
    await looks(4);
    const isLost = !(await held.isHeld());
    call.giveUp();
    await (await secondLock)?.release();
    await held.release();
    return isLost;
  }

  test('is removed by one of two who saw it, and the fresh lock stays', async () => {
    expect(await breakTwice({})).toBe(false);
  });

  test('a seeded bug is caught: removing it without the break lock', async () => {
    const isBreakLock = (path: unknown): boolean => String(path).includes('.break.');
    const withoutBreakLock: Plant['fs'] = (sound) => ({
      ...sound,
      open: async (path, flags, mode) => {
        if (isBreakLock(path)) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' });
        return sound.open(path, flags, mode);
      },
      link: async (from, to) => {
        if (!isBreakLock(to)) await sound.link(from, to);
      },
    });
    expect(await breakTwice({ fs: withoutBreakLock })).toBe(true);
  });

  test('a seeded bug is caught: breaking without proof', async () => {
    await using folder = await Folder.make();
    const place = placeIn(folder);
    const lock = await FileLock.take(place, newCall());
    const bug = await newInstance({ holder: (sound) => ({ ...sound, obstacle: () => null }) });
    const taken = await bug.FileLock.take(place, newCall());
    expect(await lock.isHeld()).toBe(false);
    await taken.release();
    await lock.release();
  });
});
