import { chmod, mkdir, readFile, stat, symlink, unlink } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';

import { fileFence, type FileFenceOptions } from '../../../src/conditional/file/fence.ts';
import type { FileTx } from '../../../src/conditional/file/tx.ts';
import { LeaseLostError } from '../../../src/errors.ts';
import { Folder, newGrant } from './folder.ts';
import { newInstance } from './instance.ts';

async function begin(more: Partial<FileFenceOptions> = {}) {
  const folder = await Folder.make('disk');
  const fence = fileFence({ path: () => folder.at('data.txt'), ...more });
  return {
    folder,
    fence,
    append: (grant: Parameters<typeof fence.write>[0], line: string) =>
      fence.write(grant, async (tx) => tx.write(`${(await tx.read())?.toString() ?? ''}${line}\n`)),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const unavailable = { code: 'FENCE_UNAVAILABLE', outcome: 'not-written' };

describe('the files', () => {
  test('are the user’s own, and the mark beside it; nothing else stays', async () => {
    await using all = await begin();
    const grant = newGrant();
    await all.fence.activate(grant);
    expect(await all.folder.names()).toEqual(['data.txt.fence']);
    await all.append(grant, 'one');
    expect(await all.folder.names()).toEqual(['data.txt', 'data.txt.fence']);
    expect(await all.folder.read('data.txt')).toBe('one\n');
    expect(JSON.parse(await all.folder.read('data.txt.fence'))).toEqual({ leasehold: 1, ...grant });
  });

  test('an existing file is taken as it is, with its mode', async () => {
    await using all = await begin();
    await all.folder.write('data.txt', 'before\n');
    await chmod(all.folder.at('data.txt'), 0o640);
    await all.append(newGrant(), 'one');
    expect(await all.folder.read('data.txt')).toBe('before\none\n');
    expect((await stat(all.folder.at('data.txt'))).mode & 0o777).toBe(0o640);
  });

  test('bytes are bytes, and of the caller’s no one is kept', async () => {
    await using all = await begin();
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    await all.fence.write(newGrant(), async (tx) => {
      expect(await tx.read()).toBeNull();
      tx.write(bytes);
      bytes.fill(0);
      (await tx.read())?.fill(1);
      expect((await tx.read())?.[255]).toBe(255);
    });
    expect([...(await readFile(all.folder.at('data.txt')))]).toEqual(Array.from({ length: 256 }, (_, index) => index));
  });

  test('a reader never sees half a file, nor none', async () => {
    await using all = await begin();
    const grant = newGrant();
    const content = (letter: string): string => letter.repeat(200_000);
    await all.fence.write(grant, (tx) => tx.write(content('a')));
    let isOver = false;
    const reading = (async (): Promise<number> => {
      let reads = 0;
      for (; !isOver; reads++) {
        const text = await all.folder.read('data.txt');
        expect(text).toBe(content(text.charAt(0)));
      }
      return reads;
    })();
    for (const letter of 'bcdefghij') await all.fence.write(grant, (tx) => tx.write(content(letter)));
    isOver = true;
    expect(await reading).toBeGreaterThan(5);
  });

  test('what a crash left half-made is replaced', async () => {
    await using all = await begin();
    await all.folder.write('data.txt.fence.data', 'ha');
    await all.folder.write('data.txt.fence.mark', '{"lease');
    await all.append(newGrant(), 'one');
    expect(await all.folder.names()).toEqual(['data.txt', 'data.txt.fence']);
    expect(await all.folder.read('data.txt')).toBe('one\n');
  });
});

describe('the body', () => {
  test('runs again if the file is not the one any more that it has read, whoever wrote it', async () => {
    await using all = await begin();
    const grant = newGrant();
    await all.append(grant, 'one');
    const seen: (string | undefined)[] = [];
    await all.fence.write(grant, async (tx) => {
      const text = (await tx.read())?.toString();
      // Not through the fence, and not later either: this one is seen.
      if (seen.push(text) === 1) await all.folder.write('data.txt', 'one\nby hand\n');
      tx.write(`${text}two\n`);
    });
    expect(seen).toEqual(['one\n', 'one\nby hand\n']);
    expect(await all.folder.read('data.txt')).toBe('one\nby hand\ntwo\n');
  });

  test('that has not read depends on nothing', async () => {
    await using all = await begin();
    let bodies = 0;
    await all.fence.write(newGrant(), async (tx) => {
      bodies++;
      await all.folder.write('data.txt', 'by hand');
      tx.write('mine');
    });
    expect(bodies).toBe(1);
    expect(await all.folder.read('data.txt')).toBe('mine');
  });

  test('holds up nobody, and is refused in the end if a later grant was admitted', async () => {
    await using all = await begin();
    const [older, newer] = [newGrant(), newGrant()];
    const write = all.fence.write(older, async (tx) => {
      await all.append(newer, 'newer');
      tx.write('older');
    });
    await expect(write).rejects.toMatchObject({ code: 'STALE_TOKEN', highest: { leaseId: newer.leaseId } });
    expect(await all.folder.read('data.txt')).toBe('newer\n');
  });

  test('of an owner that is stale already does not run', async () => {
    await using all = await begin();
    const older = newGrant();
    await all.fence.activate(newGrant());
    let bodies = 0;
    await expect(all.fence.write(older, () => bodies++)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(bodies).toBe(0);
  });

  test('that writes nothing changes nothing but the mark', async () => {
    await using all = await begin();
    const grant = newGrant();
    expect(await all.fence.write(grant, () => 'read only')).toBe('read only');
    expect(await all.folder.names()).toEqual(['data.txt.fence']);
    expect(await all.fence.highest(grant.resource)).toMatchObject({ leaseId: grant.leaseId });
  });

  test('runs once in each of many writes of one grant in one process', async () => {
    await using all = await begin();
    const grant = newGrant();
    let bodies = 0;
    const one = (): Promise<void> =>
      all.fence.write(grant, async (tx) => {
        bodies++;
        tx.write(`${(await tx.read())?.toString() ?? ''}x`);
      });
    await Promise.all(Array.from({ length: 10 }, one));
    expect(bodies).toBe(10);
    expect(await all.folder.read('data.txt')).toBe('x'.repeat(10));
  });

  test('has no use for tx afterwards, and none for what is no content', async () => {
    await using all = await begin();
    let kept: FileTx | undefined;
    await all.fence.write(newGrant(), (tx) => void (kept = tx));
    expect(() => kept?.write('late')).toThrow('CONFIG: tx: this write is over');
    await expect(kept?.read()).rejects.toThrow('CONFIG: tx: this write is over');
    for (const wrong of [undefined, null, 7, {}]) {
      const write = all.fence.write(newGrant(), (tx) => tx.write(wrong as never));
      await expect(write).rejects.toThrow('CONFIG: tx.write: got');
    }
  });

  test('is followed by one more look at the lease, after the lock was waited for', async () => {
    await using all = await begin();
    const grant = newGrant();
    const { resource, leaseId, fencingToken } = grant;
    let looks = 0;
    const lease = {
      grant,
      assertHeld() {
        if (++looks > 2) throw new LeaseLostError(resource, { reason: 'expired', leaseId, fencingToken });
      },
      holding: { mayWrite: () => true, refused() {} },
    };
    await expect(all.append(lease, 'one')).rejects.toMatchObject({ code: 'LEASE_LOST' });
    expect(await all.folder.names()).not.toContain('data.txt');
  });
});

describe('a mark that is none admits nobody', () => {
  test.each([
    '',
    '{"leasehold":1,"resource":"test/file","fenc',
    'null',
    '{}',
    '{"leasehold":1,"resource":"test/file","fencingToken":0,"leaseId":"a"}',
    '{"leasehold":1,"resource":"test/file","fencingToken":"7","leaseId":"a"}',
    '{"leasehold":1,"resource":"test/file","fencingToken":7,"leaseId":""}',
    '{"leasehold":2,"resource":"test/file","fencingToken":7,"leaseId":"a"}',
    '{"resource":"test/file","fencingToken":7,"leaseId":"a"}',
  ])('%s', async (text) => {
    await using all = await begin();
    await all.folder.write('data.txt.fence', text);
    const calls = [
      () => all.fence.activate(newGrant()),
      () => all.append(newGrant(), 'one'),
      () => all.fence.seal('test/file', 9),
      () => all.fence.highest('test/file'),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject(unavailable);
    await expect(all.fence.activate(newGrant())).rejects.toThrow('is not a mark of a fence, or not a whole one');
    expect(await all.folder.read('data.txt.fence')).toBe(text);
    expect(await all.folder.names()).toEqual(['data.txt.fence']);
  });

  test('the mark of another resource says that two share a file', async () => {
    await using all = await begin();
    await all.append(newGrant('test/one'), 'one');
    const other = newGrant('test/other');
    for (const call of [() => all.fence.activate(other), () => all.append(other, 'x')]) {
      await expect(call()).rejects.toThrow(/CONFIG: path: \S+ belongs to "test\/one", so "test\/other" needs a file/);
    }
    expect(await all.folder.read('data.txt')).toBe('one\n');
  });
});

describe('a path that can be none', () => {
  test.each([
    ['data.txt', 'must be absolute'],
    ['', 'must be the path of a file'],
    [undefined, 'must be the path of a file'],
    ['/', 'is a folder'],
    ['/folder/', 'is a folder'],
    ['/folder/a\0b', 'no NUL'],
    ['/folder/data.fence', 'are those of the fence itself'],
    ['/folder/data.fence.lock', 'are those of the fence itself'],
    [`/folder/${'x'.repeat(211)}`, 'longer than 210 bytes; fileName(resource)'],
  ])('%s', async (path, why) => {
    const fence = fileFence({ path: () => path as string });
    await expect(fence.activate(newGrant())).rejects.toThrow('CONFIG: path: gave');
    await expect(fence.activate(newGrant())).rejects.toThrow(why);
  });

  test('a name as long as can be works', async () => {
    await using folder = await Folder.make();
    const fence = fileFence({ path: () => folder.at('x'.repeat(210)) });
    await fence.write(newGrant(), (tx) => tx.write('one'));
    expect(await folder.names()).toHaveLength(2);
  });

  test('a symbolic link, and a folder', async () => {
    await using all = await begin();
    await all.folder.write('target', 'of the link');
    await symlink(all.folder.at('target'), all.folder.at('data.txt'));
    const calls = [
      () => all.fence.activate(newGrant()),
      () => all.append(newGrant(), 'one'),
      () => all.fence.highest('test/file'),
    ];
    for (const call of calls) await expect(call()).rejects.toThrow('is a symbolic link, which a write would replace');
    await unlink(all.folder.at('data.txt'));
    await mkdir(all.folder.at('data.txt'));
    for (const call of calls) await expect(call()).rejects.toThrow('data.txt is no file');
    expect(await all.folder.read('target')).toBe('of the link');
  });

  test('a folder that is not there, one that is a file, and one that may not be written', async () => {
    await using folder = await Folder.make();
    await folder.write('file', '');
    const missing = fileFence({ path: () => folder.at('missing/data.txt') });
    await expect(missing.activate(newGrant())).rejects.toMatchObject(unavailable);
    await expect(missing.activate(newGrant())).rejects.toThrow(/is \S+missing there\? a fence makes no folders/);
    const inFile = fileFence({ path: () => folder.at('file/data.txt') });
    await expect(inFile.activate(newGrant())).rejects.toMatchObject(unavailable);
    expect(await folder.names()).toEqual(['file']);
  });

  test.runIf(process.platform === 'linux')('a folder that may not be written', async () => {
    const fence = fileFence({ path: () => '/sys/leasehold.txt' });
    for (const call of [() => fence.activate(newGrant()), () => fence.write(newGrant(), (tx) => tx.write('x'))]) {
      await expect(call()).rejects.toMatchObject(unavailable);
      await expect(call()).rejects.toThrow('this process must be able to make, link and rename files in /sys');
    }
  });

  test.runIf(process.platform === 'linux').each([
    ['NFS', 0x6969],
    ['SMB', 0xfe534d42],
    ['SMB', 0xfe534d42 | 0],
    ['Ceph', 0xc36400],
  ])('a folder on %s', async (name, type) => {
    await using folder = await Folder.make();
    const statfs = async (): Promise<unknown> => ({ type });
    const { fileFence: make } = await newInstance({ fs: (sound) => ({ ...sound, statfs }) as typeof sound });
    const fence = make({ path: () => folder.at('data.txt') });
    const call = fence.write(newGrant(), (tx) => tx.write('x'));
    await expect(call).rejects.toThrow(`is on ${name}, which machines share; a file fence needs a local file system`);
    expect(await folder.names()).toEqual([]);
  });

  test.each([
    ['path', { path: '/data.txt' }],
    ['timeout', { timeout: Infinity }],
    ['mode', { mode: 0o600 }],
  ])('the option %s: %o', (option, wrong) => {
    const options = { path: () => '/data.txt', ...wrong } as unknown as FileFenceOptions;
    expect(() => fileFence(options)).toThrow(`CONFIG: ${option}: `);
  });
});

describe('a call that cannot go on', () => {
  test('a write behind a body that never settles is not written, and its successor gets in', async () => {
    await using all = await begin({ timeout: 300 });
    const grant = newGrant();
    let end = (): void => {};
    const stuck = all.fence.write(grant, () => new Promise<void>((resolve) => (end = resolve)));
    await expect(all.append(grant, 'one')).rejects.toMatchObject({
      ...unavailable,
      message: expect.stringContaining('another write of this lease is still in its body'),
    });
    await all.fence.activate(newGrant());
    end();
    await expect(stuck).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  test('a path that throws is a wrong option', async () => {
    const cause = new Error('no folder');
    const fence = fileFence({
      path: () => {
        throw cause;
      },
    });
    await expect(fence.activate(newGrant())).rejects.toMatchObject({ code: 'CONFIG', option: 'path', cause });
  });
});
