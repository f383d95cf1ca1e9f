import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseholdError } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

import { ConfigFileError, formatProblems, loadConfig } from '../../src/index.ts';

const page = fileURLToPath(new URL('broken.md', import.meta.url));

/** Values that must never be seen in what is said. */
const env = {
  SECRET: 'hunter2 {x}',
  WRONG_URL: 'http://user:hunter2@cache',
  EMPTY: '',
  SECONDS: '12s',
  TEN: '10',
  CONTROL: 'hunter2\u0007',
};

const SECTION = /^## (.*)\n\n````(\w+)\n([\s\S]*?)````\n\n````text\n([\s\S]*?)````\n/gm;
const text = await readFile(page, 'utf8');
const broken = [...text.matchAll(SECTION)].map(([, name = '', kind = '', config = '', said = '']) => ({
  name,
  kind,
  config,
  said,
}));

/** What is said of a config, with the file's own name alone. */
async function saidOf(kind: string, config: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leasehold-broken-'));
  const file = join(folder, `leasehold.${kind}`);
  try {
    await writeFile(file, config);
    const error = await loadConfig(file, { env }).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(error instanceof ConfigFileError)) throw new Error('nothing is said of it', { cause: error });
    return formatProblems(error.problems).replaceAll(`${folder}/`, '');
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('of a broken config it is said where it is broken, by which rule, and what to do', () => {
  test.each(broken)('$name', async ({ kind, config, said }) => {
    expect(await saidOf(kind, config)).toBe(said);
  });

  test('broken.md has at least 40 of them, and is written anew with -u', async () => {
    expect(broken.length).toBeGreaterThanOrEqual(40);
    let anew = text;
    for (const { name, kind, config, said } of broken) {
      const before = `## ${name}\n\n\`\`\`\`${kind}\n${config}\`\`\`\`\n\n\`\`\`\`text\n`;
      const now = await saidOf(kind, config);
      anew = anew.replace(`${before}${said}`, () => `${before}${now}`);
    }
    await expect(anew).toMatchFileSnapshot(page);
  });

  test('no value of the environment and no password is in it', () => {
    expect(broken.filter(({ said }) => said.includes('hunter2'))).toEqual([]);
    expect(
      broken.filter(({ config }) => config.includes('hunter2') || config.includes('SECRET')).length,
    ).toBeGreaterThan(2);
  });
});

test('the error has the code of all configs, and says the first problem in its message', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leasehold-broken-'));
  try {
    const error = await loadConfig(join(folder, 'leasehold.yaml')).catch((error: unknown) => error);
    expect(LeaseholdError.is(error, 'CONFIG')).toBe(true);
    expect((error as Error).message).toBe(
      `CONFIG: ${folder}/leasehold.yaml: is not there; name a file, such as leasehold.yaml`,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
