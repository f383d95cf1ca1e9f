import { systemClock } from '@leasehold/core';
import { fileFence, fileName, type FileTx } from '@leasehold/core/conditional';
import { describeFence, fenceCases } from '@leasehold/core/testing';
import { expect, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { Folder } from './folder.ts';

const linesIn = (data: Buffer | null): string[] => data?.toString().split('\n').slice(0, -1) ?? [];

const { leftOut } = describeFence(
  'a local file',
  async () => {
    const folder = await Folder.make();
    const newFence = () => fileFence({ path: (resource) => folder.at(fileName(resource)) });
    return {
      fence: newFence(),
      nowUs: () => systemClock.wallUs(),
      append: async (tx: FileTx, _resource: string, entry: string) =>
        tx.write(`${(await tx.read())?.toString() ?? ''}${entry}\n`),
      count: async (tx: FileTx) => linesIn(await tx.read()).length,
      entries: (resource: string) => folder.lines(fileName(resource)),
      second: async () => newFence(),
      abandon: async (grant, entry) => {
        await using child = startChild(new URL('fixtures/file-writer.ts', import.meta.url));
        const path = folder.at(fileName(grant.resource));
        child.send('write', { path, grant, entry, times: 1, halt: /^rename .*\.fence\.data / });
        await child.next('halted');
        await child.kill9();
      },
      close: () => folder[Symbol.asyncDispose](),
    };
  },
  ['second', 'count', 'abandon'],
);

test('the only cases that a file has no means for are those of a connection that breaks', () => {
  const broken = fenceCases.filter(({ needs }) => needs.includes('loseAnswer') || needs.includes('loseRequest'));
  expect(leftOut).toEqual(broken.map(({ name }) => name));
  expect(leftOut.length).toBeGreaterThan(0);
});
