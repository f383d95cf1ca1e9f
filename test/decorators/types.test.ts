import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'leasehold-decorators-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const files = ['right.ts', 'misuse.ts'].map((file) => here(`fixtures/${file}`));
const modes = ['standard', 'legacy'] as const;

/** Gives the names of what was checked; throws with what the compiler says. */
async function check(version: string, mode: (typeof modes)[number]): Promise<string> {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    target: 'es2022',
    lib: ['es2023', 'esnext.disposable'],
    types: ['node'],
    typeRoots: [here('../node_modules/@types')],
    module: 'nodenext',
    customConditions: ['@leasehold/source'],
    ...(mode === 'legacy' && { experimentalDecorators: true, emitDecoratorMetadata: true }),
  };
  const config = join(dir, `${version}.${mode}.json`);
  writeFileSync(config, JSON.stringify({ compilerOptions, files }));
  const compiler = here(`../packaging/node_modules/typescript-${version}`);
  const args =
    version === '7.0'
      ? [join(compiler, 'bin/tsc'), '--listFiles', '-p', config]
      : [here('../packaging/fixtures/check-types.mjs'), compiler, config];
  const { stdout } = await promisify(execFile)(process.execPath, args).catch((error: unknown) => {
    throw new Error((error as { stdout: string }).stdout, { cause: error });
  });
  return stdout;
}

// The last that is written in JavaScript, and the first that is not.
describe.each(['5.9', '7.0'])('TypeScript %s', (version) => {
  test.each(modes)('takes what is right and refuses misuse, in %s mode', { timeout: 60_000 }, async (mode) => {
    // Each misuse is beside a `@ts-expect-error`, and one too many is an error as well.
    const checked = await check(version, mode);
    for (const file of files) expect(checked).toContain(file);
  });
});
