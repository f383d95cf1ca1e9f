import { unlink } from 'node:fs/promises';
import { systemClock, type Grant } from '@leasehold/core';
import { fileFence, type FileFence } from '@leasehold/core/conditional';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import type { Scope } from '../support/leftovers.ts';
import { uniqueName } from '../support/redis-client.ts';
import type { WriteOrder } from './fixtures/file-writer.ts';
import { Folder } from './folder.ts';

function newGrant(): Grant {
  return { resource: 'test/file', fencingToken: systemClock.wallUs(), leaseId: uniqueName() };
}

function startWriter(scope: Scope = 'test'): Child {
  return startChild(new URL('fixtures/file-writer.ts', import.meta.url), { scope });
}

function order(
  child: Child,
  folder: Folder,
  { grant, entry = 'dead', times = 1, halt }: Partial<WriteOrder> & { grant: Grant },
): void {
  child.send('write', { path: folder.at('data'), grant, entry, times, halt });
}

function fenceOver(folder: Folder, timeout = 10_000): FileFence {
  return fileFence({ path: () => folder.at('data'), timeout });
}

function append(fence: FileFence, grant: Grant, entry: string): Promise<void> {
  return fence.write(grant, async (tx) => tx.write(`${(await tx.read())?.toString() ?? ''}${entry}\n`));
}

const whole = ['data', 'data.fence'];

describe('a process that is killed', () => {
  test.each([
    ['when it has the lock', /^linked .* data\.fence\.lock$/, 'nothing'],
    ['between mark and data', /^rename data\.fence\.data /, 'mark'],
    ['when all is in place', /^unlink data\.fence\.lock$/, 'all'],
  ] as const)('%s holds up nobody, and leaves whole what is there', async (_, halt, done) => {
    await using folder = await Folder.make();
    await using child = startWriter();
    const fence = fenceOver(folder);
    const [earlier, grant, later] = [newGrant(), newGrant(), newGrant()];
    await append(fence, earlier, 'earlier');
    order(child, folder, { grant, halt });
    await child.next('halted');
    await child.kill9();
    const written = done === 'all' ? ['earlier', 'dead'] : ['earlier'];
    expect(await folder.lines('data')).toEqual(written);
    expect(await fence.highest('test/file')).toMatchObject({
      leaseId: done === 'nothing' ? earlier.leaseId : grant.leaseId,
    });
    if (done !== 'nothing') {
      await expect(append(fence, earlier, 'too late')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    }
    await append(fence, later, 'later');
    expect(await folder.lines('data')).toEqual([...written, 'later']);
    expect(await folder.names()).toEqual(whole);
  });

  test('while it removes the lock of a dead one holds up nobody either', async () => {
    await using folder = await Folder.make();
    const children = [startWriter(), startWriter(), startWriter()];
    await using _first = children[0];
    await using _second = children[1];
    await using _third = children[2];
    const halts = [/^linked .* data\.fence\.lock$/, /^unlink data\.fence\.lock$/, /^unlink data\.fence\.break\.\*$/];
    for (const [index, halt] of halts.entries()) {
      const child = children[index] as Child;
      order(child, folder, { grant: newGrant(), halt });
      await child.next('halted');
      await child.kill9();
    }
    await append(fenceOver(folder), newGrant(), 'later');
    expect(await folder.lines('data')).toEqual(['later']);
    expect(await folder.names()).toEqual(whole);
  });
});

// Two that survive what they are told to do.
let writer: Child;
let otherWriter: Child;

beforeAll(async () => {
  [writer, otherWriter] = [startWriter('file'), startWriter('file')];
  await Promise.all([writer.next('ready'), otherWriter.next('ready')]);
});

afterAll(async () => {
  for (const each of [writer, otherWriter]) await each.kill9();
});

describe('a process that is stopped', () => {
  test('while it holds the lock keeps it: others wait, then say so, and go on when it does', async () => {
    await using folder = await Folder.make();
    const grant = newGrant();
    order(writer, folder, { grant, entry: 'stopped', halt: /^rename data\.fence\.data / });
    await writer.next('halted');
    await writer.stop();
    const call = fenceOver(folder, 200).activate(newGrant());
    await expect(call).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    await expect(call).rejects.toThrow(
      new RegExp(`lock file ${folder.at('data.fence.lock')} is held by .* pid ${writer.pid} .*, which is stopped`),
    );
    const waiting = append(fenceOver(folder), newGrant(), 'waited');
    writer.send('go');
    writer.cont();
    await writer.next('written');
    await waiting;
    expect(await folder.lines('data')).toEqual(['stopped', 'waited']);
  });

  test('in the body of its write holds up nobody, and is refused when it goes on', async () => {
    await using folder = await Folder.make();
    order(writer, folder, { grant: newGrant(), entry: 'stopped', halt: /^body$/ });
    await writer.next('halted');
    await writer.stop();
    await append(fenceOver(folder), newGrant(), 'later');
    writer.send('go');
    writer.cont();
    expect(await writer.next('failed')).toMatchObject({ code: 'STALE_TOKEN' });
    expect(await folder.lines('data')).toEqual(['later']);
  });

  test('and whose lock somebody has removed by hand writes nothing when it goes on', async () => {
    await using folder = await Folder.make();
    order(writer, folder, { grant: newGrant(), entry: 'stopped', halt: /^sync data\.fence\.data$/ });
    await writer.next('halted');
    await writer.stop();
    await unlink(folder.at('data.fence.lock'));
    await append(fenceOver(folder), newGrant(), 'later');
    writer.send('go');
    writer.cont();
    const failure = await writer.next<{ code: string; message: string }>('failed');
    expect(failure).toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    expect(failure.message).toContain('was removed while this process held it; nothing was written');
    expect(await folder.lines('data')).toEqual(['later']);
  });
});

test('two processes append 200 times each: nothing is lost, and readers always see a whole file', async () => {
  await using folder = await Folder.make();
  const grant = newGrant();
  order(writer, folder, { grant, entry: 'one', times: 200 });
  order(otherWriter, folder, { grant, entry: 'other', times: 200 });
  let isOver = false;
  const reading = (async (): Promise<number> => {
    let reads = 0;
    for (let before: string[] = []; !isOver; reads++) {
      const lines = await folder.lines('data');
      expect(lines.slice(0, before.length)).toEqual(before);
      before = lines;
    }
    return reads;
  })();
  const written = Promise.all([writer.next('written'), otherWriter.next('written')]);
  await written.finally(() => (isOver = true));
  expect(await reading).toBeGreaterThan(100);
  const lines = await folder.lines('data');
  for (const entry of ['one', 'other']) {
    const own = lines.filter((line) => line.startsWith(`${entry} `));
    expect(own).toEqual(Array.from({ length: 200 }, (_, index) => `${entry} ${index}`));
  }
  expect(lines).toHaveLength(400);
});
