import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { pairName, writePair } from '../../src/incident/pair.ts';

let folder: string;
const texts = { json: '{}', markdown: '# x' };

beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'leasehold-pair-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the two files of an incident', () => {
  test('have one name, and are for nobody else', async () => {
    const { json, markdown } = await writePair(join(folder, 'new', 'folder'), 'a', texts);
    expect([json, markdown]).toEqual([join(folder, 'new/folder/a.json'), join(folder, 'new/folder/a.md')]);
    expect([readFileSync(json, 'utf8'), readFileSync(markdown, 'utf8')]).toEqual(['{}', '# x']);
    for (const path of [json, markdown]) expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'new')).mode & 0o077).toBe(0);
  });

  test('take the place of nothing: not of a file, of one of a pair, of a folder, nor of where a link leads', async () => {
    writeFileSync(join(folder, 'a.json'), 'before');
    writeFileSync(join(folder, 'a-2.md'), 'before');
    mkdirSync(join(folder, 'a-3.json'));
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'a-4.md'));
    const { json, markdown } = await writePair(folder, 'a', texts);
    expect([json, markdown]).toEqual([join(folder, 'a-5.json'), join(folder, 'a-5.md')]);
    expect(readFileSync(join(folder, 'a.json'), 'utf8')).toBe('before');
    expect(readFileSync(join(folder, 'a-2.md'), 'utf8')).toBe('before');
    expect(existsSync(join(folder, 'elsewhere'))).toBe(false);
    // Nothing of what was tried is left.
    expect(readdirSync(folder).toSorted()).toEqual(['a-2.md', 'a-3.json', 'a-4.md', 'a-5.json', 'a-5.md', 'a.json']);
  });

  test('are both there or none of them', async () => {
    const failing = { json: '{}', markdown: Symbol('no text') as unknown as string };
    await expect(writePair(folder, 'a', failing)).rejects.toThrow();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('written at once by many have a name each', async () => {
    const pairs = await Promise.all(Array.from({ length: 8 }, () => writePair(folder, 'a', texts)));
    expect(new Set(pairs.map(({ json }) => json)).size).toBe(8);
    expect(readdirSync(folder)).toHaveLength(16);
  });

  test('have a name on every file system, whatever the resource is called', () => {
    const at = new Date('2026-11-30T03:15:02.500Z');
    expect(pairName('customer:42', at)).toBe('leasehold-customer_42-20261130T031502Z');
    for (const name of ['../../etc/passwd', '-rf', 'a/b', 'é漢\u{1F600}', 'x'.repeat(250), '. .', 'CON:']) {
      expect(pairName(name, at)).toMatch(/^leasehold-[\w.-]{1,80}-20261130T031502Z$/);
    }
  });
});
