import { readdirSync } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { afterAll, expect, test, vi } from 'vitest';

import { fileFence } from '../../../src/conditional/file/fence.ts';
import { Folder, newGrant } from './folder.ts';
import { Gates } from './gates.ts';
import { newInstance, type Plant } from './instance.ts';

afterAll(() => vi.resetModules());

/**
 * A later grant writes over an earlier one, and its process dies before its step number `at` (from 0). What is in the
 * file then, and what the earlier owner can still do.
 */
async function dieBefore(at: number, gates: Gates, dying: { fileFence: typeof fileFence }) {
  await using folder = await Folder.make();
  const [earlier, later] = [newGrant(), newGrant()];
  const path = (): string => folder.at('data');
  const survivor = fileFence({ path });
  await survivor.write(earlier, (tx) => tx.write('earlier'));

  let steps = 0;
  let reached = (): void => {};
  const isDead = new Promise<void>((resolve) => (reached = resolve));
  gates.pass = async () => {
    if (steps++ < at) return;
    reached();
    await new Promise(() => {});
  };
  const write = dying.fileFence({ path, timeout: 60_000 }).write(later, (tx) => tx.write('later'));
  const isOver = await Promise.race([write.then(() => true), isDead.then(() => false)]);
  const left = await folder.read('data');
  // What a breaker does once that process is proved gone. Here it only stands still.
  if (readdirSync(folder.path).includes('data.fence.lock')) await unlink(folder.at('data.fence.lock'));
  const lateWrite = await survivor
    .write(earlier, (tx) => tx.write('too late'))
    .then(
      () => 'written',
      (error: unknown) => (error as { code: string }).code,
    );
  const after = await folder.read('data');
  const next = newGrant();
  await survivor.write(next, async (tx) => tx.write(`${(await tx.read())?.toString()}, next`));
  return { isOver, left, lateWrite, after, end: await folder.read('data') };
}

async function allDeaths(plant?: Plant) {
  const gates = new Gates();
  const dying = await newInstance({ ...plant, fs: (sound) => gates.wrap(sound) });
  const deaths: Awaited<ReturnType<typeof dieBefore>>[] = [];
  for (let at = 0; ; at++) {
    const death = await dieBefore(at, gates, dying);
    deaths.push(death);
    if (death.isOver) return deaths;
  }
}

function isSound({ left, lateWrite, after, end }: Awaited<ReturnType<typeof dieBefore>>): boolean {
  // Once anything of the later grant is there, the earlier one must be shut out.
  const isShutOut = left === 'earlier' || lateWrite === 'STALE_TOKEN';
  return isShutOut && after === (lateWrite === 'written' ? 'too late' : left) && end === `${after}, next`;
}

test('whenever a writer dies, what it wrote is there or not, and nothing of an earlier grant comes after it', async () => {
  const deaths = await allDeaths();
  expect(deaths.length).toBeGreaterThan(8);
  expect(deaths.filter((death) => !isSound(death))).toEqual([]);
  expect(new Set(deaths.map(({ left }) => left))).toEqual(new Set(['earlier', 'later']));
  // Between mark and data: refused, and not written.
  expect(deaths).toContainEqual(expect.objectContaining({ left: 'earlier', lateWrite: 'STALE_TOKEN' }));
});

test('a seeded bug is caught: the data before the mark', async () => {
  const dataFirst: Plant['files'] = (sound) => {
    let putMark = async (): Promise<void> => {};
    return {
      ...sound,
      putInPlace: async (from, to, folder) => {
        if (to.endsWith('.fence')) putMark = () => sound.putInPlace(from, to, folder);
        else {
          await sound.putInPlace(from, to, folder);
          await putMark();
        }
      },
    };
  };
  const deaths = await allDeaths({ files: dataFirst });
  expect(deaths.filter((death) => !isSound(death))).toContainEqual(
    expect.objectContaining({ left: 'later', lateWrite: 'written' }),
  );
});
