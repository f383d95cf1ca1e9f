import type * as fsp from 'node:fs/promises';
import { vi } from 'vitest';

import { systemClock } from '../../../src/clock.ts';
import { Budget } from '../../../src/conditional/budget.ts';
import type * as fenceModule from '../../../src/conditional/file/fence.ts';
import type * as filesModule from '../../../src/conditional/file/files.ts';
import { thisProcess, type LockHolder } from '../../../src/conditional/file/holder.ts';
import type * as holderModule from '../../../src/conditional/file/holder.ts';
import type * as lockModule from '../../../src/conditional/file/lock.ts';
import { FilePlace } from '../../../src/conditional/file/place.ts';
import type { Folder } from './folder.ts';

/** What is planted into an instance. */
export interface Plant {
  readonly fs?: (sound: typeof fsp) => typeof fsp;
  readonly files?: (sound: typeof filesModule) => typeof filesModule;
  readonly holder?: (sound: typeof holderModule) => typeof holderModule;
}

/** The modules once more, with a memory of their own: as far as these locks go, another process. */
export async function newInstance({
  fs = (sound) => sound,
  files = (sound) => sound,
  holder = (sound) => sound,
}: Plant = {}): Promise<typeof lockModule & typeof fenceModule> {
  vi.resetModules();
  const own = '../../../src/conditional/file';
  vi.doMock('node:fs/promises', async (original) => fs(await original<typeof fsp>()));
  vi.doMock(`${own}/files.ts`, async (original) => files(await original<typeof filesModule>()));
  vi.doMock(`${own}/holder.ts`, async (original) => holder(await original<typeof holderModule>()));
  const lock = await import('../../../src/conditional/file/lock.ts');
  const fence = await import('../../../src/conditional/file/fence.ts');
  for (const path of ['node:fs/promises', `${own}/files.ts`, `${own}/holder.ts`]) vi.doUnmock(path);
  return { ...lock, ...fence };
}

/** Of a process that was here and is gone: its pid is that of another one now. */
export function deadHolder(id: string): LockHolder {
  const own = thisProcess(id);
  return { ...own, startTicks: (own.startTicks ?? 1) - 1 };
}

export function placeIn(folder: Folder): FilePlace {
  return new FilePlace('file', 'test/file', folder.at('data'));
}

/** A call with a time of its own, which `giveUp` ends. */
export function newCall(ms = 10_000) {
  const call = { budget: new Budget(systemClock, ms), isOver: false, giveUp: () => void (call.isOver = true) };
  return call;
}
